"""From what a user wrote to stages: which there are, what each reads, does and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_name, repartition_topic
from airflow_provider.streaming.language.keyed_rows import KeyedRows
from airflow_provider.streaming.language.result import Result
from airflow_provider.streaming.language.sink import Sink
from airflow_provider.streaming.operations.repartition import Repartition
from airflow_provider.streaming.planner.stage_plan import StagePlan

__all__ = ["plan_stages"]


def plan_stages(application_id: str, sinks: Sequence[Sink]) -> tuple[StagePlan, ...]:
    """The stages of a job, each before those that read what it writes.

    Every sink has a way of its own from its topic: one stage, or two with an internal topic between them where the
    grouping column is not the records' key. They are numbered in the order of the sinks, so that one that is added at
    the end changes no other's number.

    Args:
        application_id: prefixes the internal topics.
        sinks: at least one.

    Raises:
        ConfigurationError: two branches have one name, or a sink's topic cannot be the name of a store.
    """
    stages: list[StagePlan] = []
    for sink in sinks:
        stages += _of_sink(application_id, sink, len(stages))
    _refuse_one_name(stages)
    return tuple(stages)


def _of_sink(application_id: str, sink: Sink, number: int) -> Iterator[StagePlan]:
    if isinstance(sink.of, Result):
        yield from _of_result(application_id, sink.of, sink.topic, number)
    else:
        yield _of_rows(sink.of, sink.topic, number)


def _of_rows(rows: KeyedRows, topic: str, number: int) -> StagePlan:
    return StagePlan(
        number=number,
        name=topic,
        source_topic=rows.stream.topic,
        schema=rows.stream.schema,
        steps=rows.stream.steps,
        key=rows.key,
        trust_partitioning=True,
        operation=Repartition(rows.columns),
        store=None,
        output_topic=topic,
    )


def _of_result(application_id: str, result: Result, topic: str, number: int) -> Iterator[StagePlan]:
    grouped = result.grouped
    stream = grouped.stream
    name = _name(result, topic)
    if not grouped.repartitions:
        yield StagePlan(
            number=number,
            name=name,
            source_topic=stream.topic,
            schema=stream.schema,
            steps=grouped.steps,
            key=grouped.key,
            trust_partitioning=grouped.trust_partitioning,
            operation=result.operation,
            store=name,
            output_topic=topic,
        )
        return
    before, behind = result.halves
    between = repartition_topic(application_id, name)
    yield StagePlan(
        number=number,
        name=f"{name}-repartition",
        source_topic=stream.topic,
        schema=stream.schema,
        steps=grouped.steps,
        key=grouped.key,
        trust_partitioning=True,
        operation=before,
        store=None,
        output_topic=between,
        output_partitions=grouped.partitions,
    )
    yield StagePlan(
        number=number + 1,
        name=name,
        source_topic=between,
        internal=True,
        key=grouped.key,
        trust_partitioning=True,
        operation=behind,
        store=name,
        output_topic=topic,
    )


def _name(result: Result, topic: str) -> str:
    """Of the store and the internal topic: the user's, else that of the sink, which no other branch has."""
    if result.name is not None:
        return result.name
    try:
        return check_name("sink topic", topic)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error} It would name the store, too: name that with aggregate(name=...) or process(name=...)."
        ) from None


def _refuse_one_name(stages: Sequence[StagePlan]) -> None:
    by_name = dict[str, StagePlan]()
    for stage in stages:
        other = by_name.setdefault(stage.name, stage)
        if other is not stage:
            raise ConfigurationError(
                f"The sinks {other.output_topic!r} and {stage.output_topic!r} are of branches of one name, "
                f"{stage.name!r}: each keeps a store of its own. Give aggregate() or process() another name=."
            )
