"""What a job is made of, as text, and as a picture in the words of Mermaid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_provider.common.store_signature import ROCKSDB
from airflow_provider.common.table import table_lines
from airflow_provider.control.records.job_description import JobDescription, JobTopic, StageDescription, TopicKind

_SHOWN: Final = (TopicKind.SOURCE, TopicKind.REPARTITION, TopicKind.SINK, TopicKind.DEAD_LETTERS)


def description_text(job: JobDescription) -> str:
    """Lines for people: a paragraph for each stage, a table of the topics, and what an earlier version left."""
    lines = [job.application_id, ""]
    for stage in job.stages:
        tasks = "" if stage.partitions is None else f", {stage.partitions} task{'' if stage.partitions == 1 else 's'}"
        lines += [f"stage {stage.number}: {stage.name}{tasks}", f"  reads   {stage.source}"]
        lines += [] if stage.rows is None else [f"  rows    {stage.rows}"]
        lines += [f"  step    {step}" for step in stage.steps]
        lines += [f"  key     {stage.key}", f"  does    {stage.operation}"]
        kept = "" if stage.store_kind == ROCKSDB else f", kept by {stage.store_kind}"
        lines.append(f"  store   {stage.store}{kept}" if stage.store is not None else "  store   none")
        named = {topic: f", of its output {name}" for topic, name in stage.named_outputs.items()}
        lines += [f"  writes  {topic}{named.get(topic, '')}" for topic in stage.outputs]
        lines.append("")
    rows = [(topic.name, topic.kind.value, str(topic.stage), _partitions(topic)) for topic in job.topics]
    lines += table_lines(("topic", "kind", "stage", "partitions"), rows)
    if job.gone:
        lines += ["", "of an earlier version, deleted by a reset only:", *(f"  {name}" for name in job.gone)]
    return "\n".join(lines)


def _partitions(topic: JobTopic) -> str:
    if topic.partitions is not None:
        return str(topic.partitions)
    return "as it has" if topic.like is None else f"as {topic.like}"


def mermaid(job: JobDescription) -> str:
    """A flowchart: topics are rounded, stages boxes, stores cylinders. Changelogs and commits are left out."""
    return "\n".join(["flowchart LR", *(f"    {line}" for line in _lines(job))])


def _lines(job: JobDescription) -> Iterator[str]:
    ids = {topic.name: f"t{at}" for at, topic in enumerate(job.topics) if topic.kind in _SHOWN}
    for topic in job.topics:
        if topic.name in ids:
            yield f"{ids[topic.name]}{_topic(topic)}"
    for stage in job.stages:
        yield f"s{stage.number}{_stage(stage)}"
        yield f"{ids[stage.source]} --> s{stage.number}"
        for output in stage.outputs:
            name = stage.named_outputs.get(output)
            yield f"s{stage.number} -->{'' if name is None else f'|{_quoted(name)}|'} {ids[output]}"
        if stage.store is not None:
            yield f"s{stage.number} --- k{stage.number}[({_quoted(stage.store)})]"
    for topic in job.topics:
        if topic.kind is TopicKind.DEAD_LETTERS:
            yield from (f"s{stage.number} -.-> {ids[topic.name]}" for stage in job.stages)


def _topic(topic: JobTopic) -> str:
    number = "" if topic.partitions is None else f"<br/>{topic.partitions} partitions"
    return f"([{_quoted(topic.name, number)}])"


def _stage(stage: StageDescription) -> str:
    lines = [f"{stage.number}: {stage.name}", *stage.steps, f"by {stage.key}", stage.operation]
    return f"[{_quoted(lines[0], ''.join(f'<br/>{_escaped(line)}' for line in lines[1:]))}]"


def _quoted(text: str, markup: str = "") -> str:
    return f'"{_escaped(text)}{markup}"'


def _escaped(text: str) -> str:
    for character, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("`", "#96;")):
        text = text.replace(character, entity)
    return text
