"""A stage of a job as the planner cuts it, before anything is known of its topics, and the topics that it needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import changelog_topic, commits_topic
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec, commits_spec, repartition_spec
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.terms.event_time import EventTime
from airflow_provider.streaming.terms.steps import DELETED_ROWS, Step, drop_names

NullKeys = Literal["refuse", "drop", "keep"]
Spread = Literal["key", "task", "all"]


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """What one stage reads, does and writes.

    Args:
        number: 0 for the first; a stage's number does not change when another is added behind it.
        name: for people, such as ``counts``.
        source_topic: of the user, or the repartition topic that an earlier stage writes.
        internal: whether `source_topic` is a repartition topic.
        schema: of the JSON value, in Spark DDL; None leaves the value as it is, or, where `internal`, takes what the
            earlier stage writes.
        key: the column that the operation groups by; where it repartitions, the key of the new records.
        trust_partitioning: whether it is taken that all records of a group are in one partition of the source.
        store: the store's name; None for a stage that keeps no state: its commit records stand in a topic of its own.
        output_topic: the sink, or the repartition topic that a later stage reads; None for none.
        further_outputs: topics that get the same records as `output_topic`, in the same transactions: a join that
            several branches use is made once, and each of them has what it reads, or writes, to itself.
        named_outputs: by topic that gets records of an output with a name, that name.
        output_partitions: of a repartition topic that it writes; None for as many as its source has.
        rekeys: whether, where `internal`, the key is that of a column all the same, and not the record's.
        feeds: whether `output_topic` is a repartition topic. Several stages may write one: it has as many partitions as
            the first of them says.
        branch: of a union, which of its streams it reads; those behind the first write what that one writes, too.
        table: as of `InputSpec`.
        tells_time: whether its tasks tell those behind them how far event time has got, where that counts.
        changes: whether the records are those of a table that is read as a stream: one without value is dropped, and
            counted under `DELETED_ROWS`.
        null_keys: as of `InputSpec`.
        sides: as of `InputSpec`.
        spread: into which partitions its output goes: the one of the record's key, the one of the task that writes it,
            or all.
    """

    number: int = 0
    name: str
    source_topic: str
    internal: bool = False
    schema: str | None = None
    steps: tuple[Step, ...] = ()
    key: str
    trust_partitioning: bool = False
    operation: Operation
    event_time: EventTime | None = None
    store: str | None
    output_topic: str | None = None
    further_outputs: tuple[str, ...] = ()
    named_outputs: Mapping[str, str] = field(default_factory=dict)
    output_partitions: int | None = None
    rekeys: bool = False
    feeds: bool = False
    branch: int = 0
    table: bool = False
    tells_time: bool = True
    changes: bool = False
    null_keys: NullKeys = "refuse"
    sides: tuple[str, ...] = ()
    spread: Spread = "key"

    @property
    def outputs(self) -> tuple[str, ...]:
        """All topics that it writes its records into."""
        first = () if self.output_topic is None else (self.output_topic,)
        return (*first, *self.further_outputs, *self.named_outputs)

    @property
    def keyed(self) -> bool:
        """Whether the record's key is the group, whatever the columns say."""
        return self.internal and not self.rekeys

    @property
    def filters(self) -> tuple[str, ...]:
        """The names under which records that it drops are counted, by the numbers with which they are marked."""
        deleted = (DELETED_ROWS,) if self.changes else ()
        return (*deleted, *drop_names(self.steps), *((f"no_{self.key}",) if self.null_keys == "drop" else ()))

    @property
    def windowed(self) -> bool:
        """Whether its store holds windows, whose changelog is cut when they are over."""
        return self.operation.timed


def source_topics(plans: Collection[StagePlan]) -> list[str]:
    """The topics that the user's programs fill, each once."""
    return list(dict.fromkeys(plan.source_topic for plan in plans if not plan.internal))


def changelog_of(application_id: str, plan: StagePlan) -> str:
    """The topic with the commits of a stage's tasks, and with the changes to its store where it has one."""
    if plan.store is None:
        return commits_topic(application_id, plan.number)
    return changelog_topic(application_id, plan.store)


def changelog_spec_of(
    application_id: str, plan: StagePlan, partitions: int, replication_factor: int | None = None
) -> TopicSpec:
    """How the topic of `changelog_of` has to be."""
    if plan.store is None:
        return commits_spec(application_id, plan.number, partitions, replication_factor)
    return changelog_spec(application_id, plan.store, partitions, replication_factor, windowed=plan.windowed)


def partitions_read(plans: Sequence[StagePlan], of_sources: Mapping[str, int]) -> dict[str, int]:
    """By topic that a stage reads, how many partitions it has, or is to have where an earlier stage writes it.

    Raises:
        ConfigurationError: no stage writes what another one reads.
    """
    # The first of several.
    writers = {topic: plan for plan in reversed(plans) for topic in plan.outputs}
    found = dict(of_sources)

    def number(topic: str, asked: tuple[str, ...]) -> int:
        if topic not in found:
            writer = writers.get(topic)
            if writer is None or topic in asked:
                raise ConfigurationError(
                    f"A stage reads the topic {topic!r}, which no earlier stage writes: this is an error in the "
                    "provider. Report it with the job."
                )
            of_writer = number(writer.source_topic, (*asked, topic))
            found[topic] = of_writer if writer.output_partitions is None else writer.output_partitions
        return found[topic]

    return {plan.source_topic: number(plan.source_topic, ()) for plan in plans}


def internal_specs(
    application_id: str,
    plans: Sequence[StagePlan],
    of_sources: Mapping[str, int],
    replication_factor: int | None = None,
) -> tuple[TopicSpec, ...]:
    """The repartition topics, changelogs and commit topics of a job, as they have to be."""
    partitions = partitions_read(plans, of_sources)
    names = dict.fromkeys(plan.source_topic for plan in plans if plan.internal)
    between = [repartition_spec(name, partitions[name], replication_factor) for name in names]
    beside = [
        changelog_spec_of(application_id, plan, partitions[plan.source_topic], replication_factor) for plan in plans
    ]
    return (*between, *beside)
