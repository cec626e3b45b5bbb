"""What a job is made of, as a value."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.control.records.job_description import JobDescription, JobTopic, StageDescription, TopicKind
from airflow_provider.kafka.names import changelog_topic, commits_topic
from airflow_provider.streaming.planner.stage_plan import StagePlan
from airflow_provider.streaming.terms.steps import step_text


def describe_stages(application_id: str, stages: Sequence[StagePlan], dead_letter: str | None = None) -> JobDescription:
    """All that follows from a job's stages: which topics there are, and how many partitions each has."""
    topics: dict[str, JobTopic] = {}
    for stage in stages:
        if not stage.internal:
            source = JobTopic(name=stage.source_topic, kind=TopicKind.SOURCE, stage=stage.number)
            topics.setdefault(stage.source_topic, source)
    between = {stage.source_topic for stage in stages if stage.internal}
    for stage in stages:
        read = topics[stage.source_topic]
        # As many as its source, or as the source of the stage that writes that.
        like = None if read.partitions is not None else read.like or read.name
        chosen = stage.output_partitions
        for output in stage.outputs:
            if output in between:
                between_them = JobTopic(
                    name=output,
                    kind=TopicKind.REPARTITION,
                    stage=stage.number,
                    partitions=read.partitions if chosen is None else chosen,
                    like=like if chosen is None else None,
                )
                topics.setdefault(output, between_them)
            else:
                topics[output] = JobTopic(
                    name=output, kind=TopicKind.SINK, stage=stage.number, partitions=read.partitions, like=like
                )
        keeps = stage.store is not None
        commits = commits_topic(application_id, stage.number)
        name = commits if stage.store is None else changelog_topic(application_id, stage.store)
        topics[name] = JobTopic(
            name=name,
            kind=TopicKind.CHANGELOG if keeps else TopicKind.COMMITS,
            stage=stage.number,
            partitions=read.partitions,
            like=like,
            store=stage.store,
            windowed=stage.windowed,
        )
    if dead_letter is not None:
        source = topics[stages[0].source_topic]
        topics[dead_letter] = JobTopic(name=dead_letter, kind=TopicKind.DEAD_LETTERS, stage=0, like=source.name)
    kinds = list(TopicKind)
    return JobDescription(
        application_id=application_id,
        stages=tuple(
            StageDescription(
                number=stage.number,
                name=stage.name,
                source=stage.source_topic,
                steps=(
                    *map(step_text, stage.steps),
                    *((f"drop null {stage.key} (counted: no_{stage.key})",) if stage.null_keys == "drop" else ()),
                ),
                key=stage.key,
                operation=stage.operation.text,
                store=stage.store,
                output=stage.output_topic,
                further_outputs=stage.further_outputs,
                partitions=topics[stage.source_topic].partitions,
                signature=_signature(stage, stages),
            )
            for stage in stages
        ),
        topics=tuple(sorted(topics.values(), key=lambda topic: (kinds.index(topic.kind), topic.stage))),
    )


def _signature(stage: StagePlan, stages: Sequence[StagePlan]) -> StoreSignature:
    """As a worker has it in its commits, without what only Spark knows."""
    signature = stage.operation.signature(stage.key, None, None)
    if not stage.internal:
        return signature
    writers = [other for other in stages if stage.source_topic in other.outputs]
    sources = {writer.source_topic: writer.operation for writer in writers}
    return stage.operation.reading(signature, None, sources)
