"""The job API: what a user writes and submits with spark-submit, and its description."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Literal

from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.common.json_codec import to_json
from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.control.application.job_text import description_text, mermaid
from airflow_provider.control.records.job_description import (
    JobDescription,
    JobTopic,
    StageDescription,
    TopicKind,
    in_order,
)
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_name
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.state.in_memory import InMemory
from airflow_provider.state.kind import StoreKind
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.state_store import StateStore
from airflow_provider.streaming.language.join import Join
from airflow_provider.streaming.language.lineage import lineage_of
from airflow_provider.streaming.language.result import NamedOutput
from airflow_provider.streaming.language.sink import Sink
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.streaming.language.table import Table
from airflow_provider.streaming.planner.compile import left_to_spark
from airflow_provider.streaming.planner.job_check import (
    check_store_kinds,
    check_topics,
    check_unions,
    kafka_options,
    kinds_of,
)
from airflow_provider.streaming.planner.row_decoder import rows_by
from airflow_provider.streaming.planner.stage_plan import StagePlan, changelog_of
from airflow_provider.streaming.planner.stage_planner import plan_stages
from airflow_provider.streaming.terms.argument_check import check_kind, check_number
from airflow_provider.streaming.terms.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.terms.steps import step_text


def describe_stages(
    application_id: str,
    stages: Sequence[StagePlan],
    dead_letter: str | None = None,
    kinds: Mapping[str, StoreKind] | None = None,
) -> JobDescription:
    """All that follows from a job's stages: which topics there are, and how many partitions each has.

    Args:
        kinds: by store what keeps it, where that is not RocksDB as everywhere.
    """
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
        name = changelog_of(application_id, stage)
        topics[name] = JobTopic(
            name=name,
            kind=TopicKind.COMMITS if stage.store is None else TopicKind.CHANGELOG,
            stage=stage.number,
            partitions=read.partitions,
            like=like,
            store=stage.store,
            windowed=stage.windowed,
        )
    if dead_letter is not None:
        source = topics[stages[0].source_topic]
        first = stages[0].number
        topics[dead_letter] = JobTopic(name=dead_letter, kind=TopicKind.DEAD_LETTERS, stage=first, like=source.name)
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
                rows=rows_by(stage),
                key=stage.key,
                operation=stage.operation.text,
                store=stage.store,
                store_kind=(kinds or {}).get(stage.store or "", StoreKind()).name,
                output=stage.output_topic,
                further_outputs=stage.further_outputs,
                named_outputs=stage.named_outputs,
                partitions=topics[stage.source_topic].partitions,
                signature=_signature(stage, stages),
            )
            for stage in stages
        ),
        topics=in_order(topics.values()),
    )


def _signature(stage: StagePlan, stages: Sequence[StagePlan]) -> StoreSignature:
    """As a worker has it in its commits, without what only Spark knows."""
    signature = stage.operation.signature(stage.key, None, None)
    if not stage.internal:
        return signature
    writers = [other for other in stages if stage.source_topic in other.outputs]
    sources = {writer.source_topic: writer.operation for writer in writers}
    return stage.operation.reading(signature, None, sources)


@dataclass(frozen=True, init=False)
class StatefulJob:
    """A stateful streaming job: its sinks, each with the stream that it is of, and its settings.

    ::

        orders = stream("orders", schema="customer STRING, country STRING, amount DOUBLE", key="customer")
        job = StatefulJob(
            "spending",
            orders.group_by("customer").aggregate(F.sum("amount").alias("spent")).sink("spent-per-customer"),
            orders.group_by("country").aggregate(F.sum("amount").alias("spent")).sink("spent-per-country"),
        )
        if __name__ == "__main__":
            run(job)

    Its methods say how it runs; every one returns a new job.

    Args:
        application_id: names the application: it prefixes its topics, state folder and transactional ids. Changing it
            starts a new application with empty state.
        sinks: what it writes, at least one. The result of an operation that is given without `sink` is kept as state
            and not written.

    Raises:
        ConfigurationError: there is no sink, a name cannot be one, two branches have one name, streams of a union have
            a column of two types, two topics are one, or one is the application's own.
    """

    application_id: str
    sinks: tuple[Sink | Stream | Table, ...]
    _: KW_ONLY
    max_offsets_per_trigger: int | None = 200_000
    rocksdb: RocksDBOptions = field(default_factory=RocksDBOptions)
    store_kinds: Mapping[str, StoreKind] = field(default_factory=dict)
    kafka_options: tuple[tuple[str, str], ...] = ()
    transaction_timeout_ms: int = 60_000
    error_policy: ErrorPolicy = field(default_factory=ErrorPolicy)
    certify_interval_s: float | None = 600.0
    snapshot_settings: SnapshotSettings | None = None
    snapshots_of: tuple[str, ...] | None = None
    restore: RestoreSettings = field(default_factory=RestoreSettings)
    call_timeout_s: float | None = None
    state_cleanup_delay_ms: int | None = None
    allow_faults: bool = False
    worker_reads: bool = True
    data_loss: Literal["fail", "continue"] = "fail"
    stage_numbers: Mapping[str, int] = field(default_factory=dict)

    def __init__(self, application_id: str, *sinks: Sink | Stream | Table, **settings: Any) -> None:
        # With `sinks` by name too, as `dataclasses.replace` gives it.
        given: dict[str, Any] = {"sinks": sinks, **settings, "application_id": application_id}
        known = {at.name: at for at in dataclasses.fields(self)}
        if unknown := given.keys() - known.keys():
            raise TypeError(f"StatefulJob() got an unexpected keyword argument {sorted(unknown)[0]!r}")
        for name, at in known.items():
            default = at.default if at.default_factory is dataclasses.MISSING else at.default_factory()
            object.__setattr__(self, name, given.get(name, default))
        self.__post_init__()

    def __post_init__(self) -> None:
        """Refuse what cannot be run, before anything is started."""
        check_name("application id", self.application_id)
        check_kind("options() got rocksdb=", self.rocksdb, RocksDBOptions, "RocksDBOptions(...)")
        check_kind("options() got restore=", self.restore, RestoreSettings, "RestoreSettings(...)")
        bound = "options() got max_offsets_per_trigger"
        check_number(bound, self.max_offsets_per_trigger, "records", whole=True, none="no bound")
        check_kind("options() got allow_faults=", self.allow_faults, bool, "True or False")
        check_kind("options() got worker_reads=", self.worker_reads, bool, "True or False")
        check_number("options() got call_timeout_s", self.call_timeout_s, "seconds")
        check_number("options() got state_cleanup_delay_ms", self.state_cleanup_delay_ms, "ms", whole=True)
        check_number("options() got transaction_timeout_ms", self.transaction_timeout_ms, "ms", whole=True)
        check_number("certify() got interval_s", self.certify_interval_s, "seconds", none="never")
        if not self.sinks:
            raise ConfigurationError(
                f"Job {self.application_id!r} got no sinks: give it what it writes, such as StatefulJob"
                f'({self.application_id!r}, counts.sink("word-counts")).'
            )
        for sink in self.sinks:
            check_kind("StatefulJob() got ", sink, (Sink, Stream, Table), 'sinks, such as counts.sink("word-counts")')
            if not isinstance(sink, Sink) and (
                sink.origin is None or sink.steps or isinstance(sink.origin, (Join, NamedOutput))
            ):
                raise ConfigurationError(
                    f"Job {self.application_id!r} got the {type(sink).__name__.lower()} {sink.topic!r} without sink(): "
                    "write it to a topic, or give what aggregate() or process() makes, whose state is kept."
                )
        check_unions(self.stages)
        written = [sink.topic for sink in self.sinks if isinstance(sink, Sink)]
        check_topics(self.application_id, self.stages, written, self.error_policy.topic)
        check_store_kinds(self.application_id, self.stages, self.store_kinds, self.snapshot_stores)

    def on_error(self, policy: Literal["fail", "skip", "dead_letter"], topic: str | None = None) -> StatefulJob:
        """Say what becomes of a record that does not decode, has no usable key, or makes the job's function raise.

        Args:
            policy: ``"fail"`` (the default) stops the task with an error that names the record; ``"skip"`` leaves it
                out and counts it; ``"dead_letter"`` also writes it, as it was, to `topic`, with its topic, partition,
                offset, timestamp, error and stack in headers, in the transaction of the micro-batch.
            topic: the dead-letter topic, created where it is missing by the deploy DAG or
                ``topics repair JOB.py --apply``.

        Raises:
            ConfigurationError: there is no such policy, or `topic` is missing, or named where none is written.
        """
        choices = [choice.value for choice in OnError]
        if policy not in choices:
            raise ConfigurationError(f"on_error() got {policy!r}: choose one of {', '.join(map(repr, choices))}.")
        on_error = OnError(policy)
        return dataclasses.replace(self, error_policy=ErrorPolicy(on_error, topic))

    def on_data_loss(self, policy: Literal["fail", "continue"]) -> StatefulJob:
        """Say what a task does when input was deleted before it was read, by retention or by a person.

        The same where the source's end fell back below what the task has processed, by an unclean leader election: new
        records get offsets that the task has processed before, and would be skipped.

        Args:
            policy: ``"fail"`` (the default) stops the task with an error that names the range of offsets;
                ``"continue"`` goes on with the first record that is left, or that is not skipped, and counts the range
                in ``lost_records`` of the task's status.

        Raises:
            ConfigurationError: it is neither.
        """
        if policy not in ("fail", "continue"):
            raise ConfigurationError(f"on_data_loss() got {policy!r}: use 'fail' or 'continue'.")
        return dataclasses.replace(self, data_loss=policy)

    def certify(self, interval_s: float | None) -> StatefulJob:
        """Say how often each standby's store is compared with what its active's held at the same position.

        Args:
            interval_s: between two comparisons, in seconds; default 600, the first as soon as the standby is warm.
                Each reads the whole store, on a quarter of a core at the most. None for never.

        Raises:
            ConfigurationError: it is not above 0.
        """
        return dataclasses.replace(self, certify_interval_s=interval_s)

    def snapshots(
        self, url: str, interval_s: float = 3600.0, keep: int = 3, stores: Sequence[str] | None = None
    ) -> StatefulJob:
        """Copy the standbys' stores elsewhere, so that an empty store need not read its whole changelog.

        Args:
            url: a folder that fsspec can open, such as ``s3://bucket/prefix`` or ``file:///mnt/shared``, without
                credentials: fsspec takes those from the environment or the credentials files of the instances' hosts.
                What it needs for the URL's scheme (such as s3fs) has to be installed there; an instance without it does
                not start.
            interval_s: between two snapshots of one standby, in seconds. Only files that are new are sent.
            keep: how many of each standby are kept.
            stores: which are copied, by their names; default all. Only those in RocksDB can be.

        Raises:
            ConfigurationError: the URL carries a login, a number is not above 0, or a store is not there, or not in
                RocksDB.
        """
        settings = SnapshotSettings(url, interval_s=interval_s, keep=keep)
        of = None if stores is None else tuple(stores)
        return dataclasses.replace(self, snapshot_settings=settings, snapshots_of=of)

    def options(
        self,
        rocksdb: RocksDBOptions | None = None,
        stores: Mapping[str, RocksDBOptions | InMemory | type[StateStore]] | None = None,
        kafka: dict[str, str] | None = None,
        transaction_timeout_ms: int | None = None,
        restore: RestoreSettings | None = None,
        call_timeout_s: float | None = None,
        state_cleanup_delay_ms: int | None = None,
        allow_faults: bool | None = None,
        max_offsets_per_trigger: int | None = None,
        worker_reads: bool | None = None,
    ) -> StatefulJob:
        """Set what has good defaults.

        Args:
            rocksdb: the settings of the stores in RocksDB.
            stores: by the name of a store what keeps it, where that is not RocksDB with these settings: ``InMemory()``,
                a class as `StateStore` describes it, or ``RocksDBOptions()`` of its own.
            kafka: further options of Spark's Kafka source, such as ``kafka.max.poll.records``; not those that say from
                which cluster, which records, from where on and with which isolation it reads.
            transaction_timeout_ms: after which brokers abort what a dead owner left open; default 60,000.
            restore: how a restore may use the machine: memory, parallelism, fetch sizes, rate.
            call_timeout_s: how long a micro-batch may keep a Python worker; then the worker is ended, and the task
                whose batch it was fails. Default 600.
            state_cleanup_delay_ms: how long an instance keeps the store of a task that was given to others; default the
                changelog's ``delete.retention.ms``, after which it could not be resumed anyway.
            allow_faults: whether a recovery drill may kill an instance of it. Default False: anybody with write
                access to the assignment topic could, so a command to do so is refused.
            max_offsets_per_trigger: how many records a micro-batch of a stage may hold, over its partitions; default
                200,000.
            worker_reads: whether its Python workers read its sources themselves where no stage needs Spark for its
                records ("Who reads" in the guide). Default True; False: Spark reads.

        Raises:
            ConfigurationError: an option is set by the package itself, a number is not above 0, or a store is not
                there, or given what cannot keep it.
        """
        given = {
            "rocksdb": rocksdb,
            "store_kinds": None if stores is None else kinds_of(stores),
            "kafka_options": None if kafka is None else kafka_options(kafka),
            "transaction_timeout_ms": transaction_timeout_ms,
            "restore": restore,
            "call_timeout_s": call_timeout_s,
            "state_cleanup_delay_ms": state_cleanup_delay_ms,
            "allow_faults": allow_faults,
            "max_offsets_per_trigger": max_offsets_per_trigger,
            "worker_reads": worker_reads,
        }
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(self, **changes)

    def kind_of(self, store: str | None) -> StoreKind:
        """What keeps a store; None for what a stage without one keeps its position in."""
        return self.store_kinds.get(store or "", StoreKind(rocksdb=self.rocksdb))

    @property
    def snapshot_stores(self) -> tuple[str, ...]:
        """The stores of which snapshots are taken. A position alone is restored as fast without."""
        if self.snapshot_settings is None:
            return ()
        return self.snapshots_of or tuple(stage.store for stage in self.stages if stage.store is not None)

    @cached_property
    def stages(self) -> tuple[StagePlan, ...]:
        """The stages that it is cut into, each before those that read what it writes."""
        plans = plan_stages(self.application_id, self.sinks)
        if self.stage_numbers.keys() != {plan.name for plan in plans}:
            return plans
        return tuple(dataclasses.replace(plan, number=self.stage_numbers[plan.name]) for plan in plans)

    def numbered(self, numbers: Mapping[str, int]) -> StatefulJob:
        """The same, whose stages have the numbers that the application knows them by.

        Args:
            numbers: by stage's name. Where they are not those of its stages, they say nothing.
        """
        return dataclasses.replace(self, stage_numbers=numbers)

    def description(self) -> JobDescription:
        """Its stages, topics and stores, without Spark or Kafka; partitions as far as the job itself says them."""
        described = describe_stages(self.application_id, self.stages, self.error_policy.topic, self.store_kinds)
        return dataclasses.replace(described, rows=lineage_of(self.sinks))

    def describe(self, format: Literal["text", "mermaid", "json"] = "text") -> str:
        """Its stages, topics and stores, for people, without Spark or Kafka.

        Args:
            format: ``"text"``, ``"mermaid"`` for a picture, or ``"json"`` for `description` in one line.

        Raises:
            ConfigurationError: there is no such format.
        """
        formats: dict[str, Callable[[JobDescription], str]] = {
            "text": description_text,
            "mermaid": mermaid,
            "json": lambda job: to_json(job).decode(),
        }
        if format not in formats:
            raise ConfigurationError(f"describe() got {format!r}: choose one of {', '.join(map(repr, formats))}.")
        # What stages behind internal topics get is known once the job is compiled, which nobody else needs for this.
        described, left = self.description(), left_to_spark(self)
        stages = tuple(
            dataclasses.replace(stage, rows=f"by Spark: {left[stage.number]}") if stage.number in left else stage
            for stage in described.stages
        )
        return formats[format](dataclasses.replace(described, stages=stages))
