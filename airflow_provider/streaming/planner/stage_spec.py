"""What a worker has to know of a stage of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar

import pyarrow as pa

from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.topic_spec import MAX_MESSAGE_BYTES
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.state.kind import StoreKind
from airflow_provider.streaming.json.spark_json import SparkJson
from airflow_provider.streaming.operations.batch import Changes, Pair
from airflow_provider.streaming.operations.limits import Limits, TopicLimit
from airflow_provider.streaming.operations.operation import Decoder, Operation
from airflow_provider.streaming.operations.repartition import without_passed
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.operations.upstream_time import set_aside
from airflow_provider.streaming.planner.stage_plan import NullKeys, Spread
from airflow_provider.streaming.terms.error_policy import ErrorPolicy
from airflow_provider.streaming.terms.event_time import EventTime

__all__ = ["Decoder", "InputSpec", "StageSpec", "StoreSpec", "stage_of"]

S = TypeVar("S")

Aside = Literal["aside"]
ASIDE: Final[Aside] = "aside"
"""Of a task that nobody is to wait for, because its source holds nothing."""

_OVERHEAD_BYTES: Final = 100
"""Bytes that Kafka adds to the only record of a batch, at the most, rounded up."""


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """The rows that come in.

    Args:
        topic: the source topic, whose partition *i* task *i* processes.
        decoder: decodes the values in the worker; None when Spark has decoded them.
        keyed: whether the record's key is the group, because an earlier stage of the job has written it so.
        json: whether the values have to be JSON, which the worker decides, whether Spark decodes them or the worker.
        by_spark: what Spark does not say of the values that it decodes.
        columns: the types of what the operation reads.
        num_partitions: of the source, over which its producers spread the groups; None where nothing has to be checked.
        table: whether the records are rows of a table, whose key is the record's, and a null value deletes one.
        null_keys: what becomes of a row whose key is null: it cannot be processed, is dropped and counted under the
            last of the filters, or goes on.
        sides: of a join, what its sides are, the left one first: topics, or joins in words.
        from_stage: whether an earlier stage writes the rows, and perhaps marks among them (`changelog.time_mark`).
        upstream: by side of the rows, the tasks that tell how far they are with their event times; empty where the rows
            themselves move time, of a side that is told nothing of too.
    """

    topic: str
    key_name: str
    filters: tuple[str, ...] = ()
    decoder: Decoder | None = None
    keyed: bool = False
    json: bool = False
    by_spark: SparkJson = field(default_factory=SparkJson)
    event_time: EventTime | None = None
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    num_partitions: int | None = None
    table: bool = False
    null_keys: NullKeys = "refuse"
    sides: tuple[str, ...] = ()
    from_stage: bool = False
    upstream: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class StoreSpec:
    """The store, and its changelog. That of a stage that keeps no state holds the position, and nothing else.

    Args:
        changelog: the topic with its changes, and with the tasks' commits.
        kind: what keeps it.
        delete_retention_ms: for how long the changelog keeps tombstones.
        signature: what the state means that the job writes into an empty store; `compile_job` gives every stage one.
            Without it, what another version wrote is not compared.
    """

    name: str
    changelog: str
    delete_retention_ms: int
    kind: StoreKind = field(default_factory=StoreKind)
    signature: StoreSignature | None = None


@dataclass(frozen=True, kw_only=True)
class StageSpec:
    """A stage of a job as a worker carries it out.

    Args:
        sink_topic: where the output goes: the user's topic, or one that a later stage reads; None for none.
        further_outputs, named_outputs: as of `StagePlan`.
        sink_partitions: how many the first has, where the tasks say themselves into which they write; else None.
        spread: into which partitions of the sink topic the output goes (`StagePlan.spread`).
        certify_interval_s: between two comparisons of a standby's store with its active's; None for never.
        keeps_state: whether its store holds more than the position.
        snapshots: where standbys' stores are copied to; None for nowhere.
        marked: the internal topics that its tasks tell how far they are (`changelog.time_mark`), with their partitions.
        columns_alone: of the topics of its output, those where rows do not say how far time was (`steps.PASSED`),
            though others' do.
        topic_ids: by topic, its id in the cluster as the instance found it when it started; a topic that is missing
            here is known by its name alone.
        max_message_bytes: by topic that the tasks write to, the largest record batch that it takes.
    """

    application_id: str
    input: InputSpec
    operation: Operation
    store: StoreSpec
    sink_topic: str | None = None
    further_outputs: tuple[str, ...] = ()
    named_outputs: Mapping[str, str] = field(default_factory=dict)
    sink_partitions: int | None = None
    spread: Spread = "key"
    transaction_timeout_ms: int = 60_000
    error_policy: ErrorPolicy = field(default_factory=ErrorPolicy)
    certify_interval_s: float | None = 600.0
    keeps_state: bool = True
    snapshots: SnapshotSettings | None = None
    restore: RestoreSettings = field(default_factory=RestoreSettings)
    marked: Mapping[str, int] = field(default_factory=dict)
    columns_alone: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    max_message_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def changelog(self) -> str:
        """The topic of its store's changelog."""
        return self.store.changelog

    def told(self, time: StreamTime) -> int | Aside | None:
        """What a task tells those behind it, at a time of its own; None where it does not know."""
        upstream = [task for side in self.input.upstream for task in side]
        if time.aside or (upstream and set_aside(time.marks, upstream)):
            return ASIDE
        return self.operation.told_ms(time)

    @property
    def outputs(self) -> tuple[str, ...]:
        """All topics that the output goes to."""
        return (*self._unnamed_outputs, *self.named_outputs)

    @property
    def _unnamed_outputs(self) -> tuple[str, ...]:
        return (*(() if self.sink_topic is None else (self.sink_topic,)), *self.further_outputs)

    def written(self, changes: Changes) -> dict[str, Sequence[Pair]]:
        """By topic, the records that it gets; what no topic gets, because nobody reads it, is left."""
        written: dict[str, Sequence[Pair]] = dict.fromkeys(self._unnamed_outputs, changes.output)
        if self.columns_alone:
            written |= dict.fromkeys(self.columns_alone, without_passed(changes.output))
        return written | {topic: changes.named.get(name, ()) for topic, name in self.named_outputs.items()}

    @property
    def limits(self) -> Limits:
        """How large what a record comes to may be."""
        named = dict[str, TopicLimit]()
        # The narrowest of several comes last.
        for topic in sorted(self.named_outputs, key=self.record_limit, reverse=True):
            named[self.named_outputs[topic]] = self._limit(topic)
        narrowest = min(self._unnamed_outputs, key=self.record_limit, default=None)
        return Limits(self._limit(self.changelog), None if narrowest is None else self._limit(narrowest), named)

    def _limit(self, topic: str) -> TopicLimit:
        return TopicLimit(topic, self.pair_limit(topic))

    def output_partitions(self, task: int) -> Sequence[int] | None:
        """The partitions of the sink topic that a task writes each record to; None where its key decides."""
        if self.sink_partitions is None or self.spread == "key":
            return None
        return range(self.sink_partitions) if self.spread == "all" else (task % self.sink_partitions,)

    def record_limit(self, topic: str) -> int:
        """The largest record batch that a topic takes, in bytes; Kafka's default where it is not known."""
        return self.max_message_bytes.get(topic, MAX_MESSAGE_BYTES)

    def pair_limit(self, topic: str) -> int:
        """How many bytes a record's key and value may have together, so that a topic takes it alone in its batch."""
        return self.record_limit(topic) - _OVERHEAD_BYTES


def stage_of(application_id: str, stages: Mapping[int, S], number: int) -> S:
    """What is known of a stage.

    Raises:
        ConfigurationError: the job has no such stage.
    """
    if number not in stages:
        raise ConfigurationError(
            f"The job {application_id!r} has no stage {number}, only {', '.join(map(str, sorted(stages)))}: the "
            "assignment was made for another version of it. Restart this instance with the job file that has this "
            "stage; or, where the stage was taken out, assign the tasks again (AssignTasksOperator, or "
            "'stateful-streams assign')."
        )
    return stages[number]
