"""The job API: what a user writes and submits with spark-submit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.common.json_codec import to_json
from airflow_provider.control.job_description import JobDescription
from airflow_provider.control.job_mermaid import mermaid
from airflow_provider.control.job_text import description_text
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_name, check_topic
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.streaming.argument_check import check_kind, check_number
from airflow_provider.streaming.column_check import check_columns, columns_after, written_columns
from airflow_provider.streaming.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.event_time import EventTime, event_time_of
from airflow_provider.streaming.function_check import process_operation
from airflow_provider.streaming.kafka_option_check import kafka_options
from airflow_provider.streaming.language.expression_columns import refuse_unknown_columns
from airflow_provider.streaming.language.grouped import AGGREGATES
from airflow_provider.streaming.language.operation_in_time import operation_in_time
from airflow_provider.streaming.language.row_expression import refuse_other_rows_needed
from airflow_provider.streaming.language.selection import refuse_generator
from airflow_provider.streaming.language.sink import Sink
from airflow_provider.streaming.operations.aggregate import Aggregate, Aggregation
from airflow_provider.streaming.operations.drop_duplicates import DropDuplicates
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.process import ProcessFunction
from airflow_provider.streaming.operations.windowed_aggregate import Emit
from airflow_provider.streaming.planner.describe import describe_stages
from airflow_provider.streaming.planner.stage_plan import StagePlan
from airflow_provider.streaming.planner.stage_planner import plan_stages
from airflow_provider.streaming.planner.union_check import check_unions
from airflow_provider.streaming.schema_check import check_schema
from airflow_provider.streaming.steps import Filter, Step, WithColumn
from airflow_provider.streaming.time_check import check_emit, check_time
from airflow_provider.streaming.topic_check import check_topics
from airflow_provider.streaming.windows import SessionWindow, Window

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["StatefulJob"]


@dataclass(frozen=True, init=False)
class StatefulJob:
    """A stateful streaming job, built from its sinks, or step by step over one topic; every method returns a new job.

    From its sinks, each of which knows the stream that it is of::

        orders = stream("orders", schema="customer STRING, country STRING, amount DOUBLE", key="customer")
        job = StatefulJob(
            "spending",
            orders.group_by("customer").aggregate(F.sum("amount").alias("spent")).sink("spent-per-customer"),
            orders.group_by("country").aggregate(F.sum("amount").alias("spent")).sink("spent-per-country"),
        )

    Step by step, where the topic's key is what it groups by::

        job = (
            StatefulJob("orders-per-customer")
            .source("orders", schema="customer STRING, amount DOUBLE")
            .filter("amount IS NOT NULL", name="no_amount")
            .group_by("customer")
            .aggregate(F.count().alias("orders"), F.sum("amount").alias("spent"))
            .sink("spent-per-customer")
        )
        if __name__ == "__main__":
            run(job)

    Args:
        application_id: names the application: it prefixes its topics, state folder and transactional ids. Changing it
            starts a new application with empty state.
        sinks: what it writes; none for a job that is built step by step.

    Raises:
        ConfigurationError: a name cannot be one, two branches have one name, or two topics are one.
    """

    application_id: str
    sinks: tuple[Sink, ...] = ()
    _: KW_ONLY
    source_topic: str | None = None
    schema: str | None = None
    event_time: EventTime | None = None
    steps: tuple[Step, ...] = ()
    key: str | None = None
    window: Window | SessionWindow | None = None
    trust_partitioning: bool = False
    operation: Operation | None = None
    emit: Emit = "update"
    sink_topic: str | None = None
    store: str = "state"
    max_offsets_per_trigger: int | None = 200_000
    rocksdb: RocksDBOptions = field(default_factory=RocksDBOptions)
    kafka_options: tuple[tuple[str, str], ...] = ()
    transaction_timeout_ms: int = 60_000
    error_policy: ErrorPolicy = field(default_factory=ErrorPolicy)
    certify_interval_s: float | None = 600.0
    snapshot_settings: SnapshotSettings | None = None
    restore: RestoreSettings = field(default_factory=RestoreSettings)
    call_timeout_s: float | None = None
    state_cleanup_delay_ms: int | None = None
    allow_faults: bool = False
    data_loss: Literal["fail", "continue"] = "fail"

    def __init__(self, application_id: str, *sinks: Sink, **settings: Any) -> None:
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
        """Refuse names that cannot be topics and folders, and timeouts in which nothing can be done."""
        check_name("application id", self.application_id)
        check_name("store", self.store)
        for method, what, topic in (
            ("source", "topic", self.source_topic),
            ("sink", "topic", self.sink_topic),
            ("source", "schema", self.schema),
        ):
            check_kind(f"{method}() got {what}=", topic, (str, type(None)), "one text")
            if topic is not None and what == "topic":
                check_topic(f"{method}()", topic)
        check_kind("options() got rocksdb=", self.rocksdb, RocksDBOptions, "RocksDBOptions(...)")
        check_kind("options() got restore=", self.restore, RestoreSettings, "RestoreSettings(...)")
        bound = "source() got max_offsets_per_trigger"
        check_number(bound, self.max_offsets_per_trigger, "records", whole=True, none="no bound")
        check_kind("options() got allow_faults=", self.allow_faults, bool, "True or False")
        check_number("options() got call_timeout_s", self.call_timeout_s, "seconds")
        check_number("options() got state_cleanup_delay_ms", self.state_cleanup_delay_ms, "ms", whole=True)
        check_number("options() got transaction_timeout_ms", self.transaction_timeout_ms, "ms", whole=True)
        check_number("certify() got interval_s", self.certify_interval_s, "seconds", none="never")
        for sink in self.sinks:
            check_kind("StatefulJob() got ", sink, Sink, 'sinks, such as counts.sink("word-counts")')
        if self.sinks:
            check_topics(self.application_id, self.stages, [sink.topic for sink in self.sinks], self.error_policy.topic)

    def source(
        self,
        topic: str,
        schema: str | None = None,
        max_offsets_per_trigger: int | None = 200_000,
        *,
        event_time: str | None = None,
        watermark: str | None = None,
        idle_timeout: str | None = None,
    ) -> StatefulJob:
        """Read a topic.

        Besides the value's fields a row has ``_source``: a struct of topic, partition, offset, timestamp and key.

        Args:
            topic: its partition *i* is task *i*.
            schema: the JSON value's schema in Spark DDL, such as ``"id STRING, amount DOUBLE"``. None leaves the value
                as it is: columns ``key`` and ``value``, both BINARY.
            max_offsets_per_trigger: how many records a micro-batch may hold, over its partitions; None for no bound.
            event_time: the column that says when a record happened, as it is after the steps: a TIMESTAMP, or a BIGINT
                in milliseconds since 1970. Default the record's own timestamp, ``_source.timestamp``, where `watermark`
                is given.
            watermark: for how long records are waited for that come late, such as ``"10 minutes"`` or ``"0 seconds"``:
                a window is closed once the task has seen an event time that is so much later than the window's end.
                Windows need it; None reads no event time.
            idle_timeout: after how long without records the time of a partition goes on with the clock, such as
                ``"5 minutes"``, so that what is open closes there too. Records that come after that are late by the
                time that has passed. Default never: time moves by records alone.

        Raises:
            ConfigurationError: the job reads another topic already, `watermark` is missing, or a duration is none.
        """
        self._refuse_another("source", self.source_topic, topic)
        return dataclasses.replace(
            self,
            source_topic=topic,
            schema=schema,
            max_offsets_per_trigger=max_offsets_per_trigger,
            event_time=event_time_of("source()", event_time, watermark, idle_timeout),
        )

    def filter(self, condition: str | Column, name: str) -> StatefulJob:
        """Keep the rows for which `condition` is true; count the others under `name`.

        The count is committed with the state, so it is exact through crashes. A value that does not decode is never
        dropped by a filter: it stops the task.

        Args:
            condition: Spark SQL, or a Column. Null counts as false.
            name: of the count, in the commit record. Filters of one name are counted together.
        """
        self._refuse_sinks("filter")
        refuse_generator("filter()", condition)
        refuse_other_rows_needed("filter()", condition)
        return dataclasses.replace(self, steps=(*self.steps, Filter(condition, name)))

    def with_column(self, name: str, expression: str | Column) -> StatefulJob:
        """Add or replace a column, computed from its own row.

        Args:
            name: of the column.
            expression: Spark SQL, or a Column.
        """
        self._refuse_sinks("with_column")
        refuse_generator("with_column()", expression)
        refuse_other_rows_needed("with_column()", expression)
        return dataclasses.replace(self, steps=(*self.steps, WithColumn(name, expression)))

    def group_by(self, key: str, *others: Window | SessionWindow, trust_partitioning: bool = False) -> StatefulJob:
        """Keep state by this one column, and by windows of event time where they are given.

        A task sees only its own partition of the source, so all records of a group have to be in one. That is so where
        the records' key is the group's text and all producers use the same partitioner, the Java clients' (murmur2) or
        librdkafka's (CRC-32). A record of which it is not so is a record error (`on_error`).

        Args:
            key: the column's name.
            others: ``window(...)`` or ``session_window(...)``, at most one. Further columns are refused; a key of
                several has to be made one with `with_column`.
            trust_partitioning: take it that all records of a group are in one partition, whatever their keys. Where
                they are not, several tasks keep a part of the group's state each, and the results are wrong.

        Raises:
            ConfigurationError: it is not one column, or the job groups by another column already.
        """
        _check_grouping(key, others, trust_partitioning)
        self._refuse_another("group_by", self.key, key)
        window = others[0] if others else None
        return dataclasses.replace(self, key=key, window=window, trust_partitioning=trust_partitioning)

    def aggregate(self, *aggregates: Aggregate, emit: Emit = "update") -> StatefulJob:
        """Keep aggregates by key, and window where there are; emit them as a JSON object.

        Args:
            aggregates: the results, in order.
            emit: ``"update"`` emits what changed, once per key, window and micro-batch; ``"close"`` emits each key and
                window exactly once, when the window is over.

        Raises:
            ConfigurationError: there is none, two have one name, or the job has an operation already.
        """
        for aggregate in aggregates:
            check_kind("aggregate() got ", aggregate, Aggregate, AGGREGATES)
        check_emit(emit)
        return dataclasses.replace(self._with_operation("aggregate", Aggregation(aggregates)), emit=emit)

    def process(
        self,
        function: ProcessFunction,
        columns: Sequence[str] | None = None,
        timeout_s: float | None = None,
        version: int = 1,
    ) -> StatefulJob:
        """Call a Python function once per key and micro-batch.

        Args:
            function: ``function(key, rows, state)``; see `operations.process.ProcessFunction`.
            columns: the columns that its rows hold, each once; they have to be named.
            timeout_s: how long a call may take, in seconds; then it counts as raised. None for no limit.
            version: of the state that the function keeps. Give it another number when the function no longer
                understands its old state: then the job refuses that state instead of misreading it.

        Raises:
            ConfigurationError: the columns are missing, are one text, or name one twice; the function cannot be called
                with three arguments, or is an ``async def``; or the job has an operation already.
        """
        return self._with_operation("process", process_operation(function, columns, timeout_s, version))

    def drop_duplicates(self, key: str, *, within: str, trust_partitioning: bool = False) -> StatefulJob:
        """Let a record through if none of its key came out whose event time is less than `within` away.

        What comes out is the row, as a JSON object of all columns. What does not is counted as ``duplicates``, beside
        the filters' counts. A record whose time lies before the watermark is dropped as late: what it would have to be
        compared with is forgotten by then. So no two records of a key come out that are less than `within` apart.

        Args:
            key: the column by which two records are the same; takes the place of `group_by`, as which it is checked.
            within: how far apart the times of two records of a key are at least that both come out, such as
                ``"1 hour"``. For so long a key is kept.
            trust_partitioning: see `group_by`.

        Raises:
            ConfigurationError: it is not one column, `within` is no duration, or the job groups by another column or
                has an operation already.
        """
        operation = DropDuplicates.of(within)
        _check_grouping(key, (), trust_partitioning)
        self._refuse_another("drop_duplicates", self.key, key)
        job = self._with_operation("drop_duplicates", operation)
        return dataclasses.replace(job, key=key, trust_partitioning=trust_partitioning)

    def sink(self, topic: str) -> StatefulJob:
        """Write the output to a topic: the record's key is the key, its value a JSON object.

        Raises:
            ConfigurationError: the job writes to another topic already.
        """
        self._refuse_another("sink", self.sink_topic, topic)
        return dataclasses.replace(self, sink_topic=topic)

    def on_error(self, policy: Literal["fail", "skip", "dead_letter"], topic: str | None = None) -> StatefulJob:
        """Say what becomes of a record that does not decode, has no usable key, or makes the job's function raise.

        Args:
            policy: ``"fail"`` (the default) stops the task with an error that names the record; ``"skip"`` leaves it
                out and counts it; ``"dead_letter"`` also writes it, as it was, to `topic`, with its topic, partition,
                offset, timestamp, error and stack in headers, in the transaction of the micro-batch.
            topic: the dead-letter topic, which has to exist.

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

    def snapshots(self, url: str, interval_s: float = 3600.0, keep: int = 3) -> StatefulJob:
        """Copy the standbys' stores elsewhere, so that an empty store need not read its whole changelog.

        Args:
            url: a folder that fsspec can open, such as ``s3://bucket/prefix`` or ``file:///mnt/shared``, without
                credentials: fsspec takes those from the environment or the credentials files of the instances' hosts.
                What it needs for the URL's scheme (such as s3fs) has to be installed there; an instance without it does
                not start.
            interval_s: between two snapshots of one standby, in seconds. Only files that are new are sent.
            keep: how many of each standby are kept.

        Raises:
            ConfigurationError: the URL carries a login, or a number is not above 0.
        """
        return dataclasses.replace(self, snapshot_settings=SnapshotSettings(url, interval_s=interval_s, keep=keep))

    def options(
        self,
        rocksdb: RocksDBOptions | None = None,
        kafka: dict[str, str] | None = None,
        store: str | None = None,
        transaction_timeout_ms: int | None = None,
        restore: RestoreSettings | None = None,
        call_timeout_s: float | None = None,
        state_cleanup_delay_ms: int | None = None,
        allow_faults: bool | None = None,
        max_offsets_per_trigger: int | None = None,
    ) -> StatefulJob:
        """Set what has good defaults.

        Args:
            rocksdb: the stores' settings.
            kafka: further options of Spark's Kafka source, such as ``kafka.max.poll.records``; not those that say from
                which cluster, which records, from where on and with which isolation it reads.
            store: the store's name; default ``state``. Only of a job that is built step by step: a job of sinks names
                each store with ``name=`` of its aggregate, function or join.
            transaction_timeout_ms: after which brokers abort what a dead owner left open; default 60,000.
            restore: how a restore may use the machine: memory, parallelism, fetch sizes, rate.
            call_timeout_s: how long a micro-batch may keep a Python worker; then the worker is ended, and the task
                whose batch it was fails. Default 600.
            state_cleanup_delay_ms: how long an instance keeps the store of a task that was given to others; default the
                changelog's ``delete.retention.ms``, after which it could not be resumed anyway.
            allow_faults: whether a recovery drill may kill an instance of it. Default False: anybody with write
                access to the assignment topic could, so a command to do so is refused.
            max_offsets_per_trigger: how many records a micro-batch may hold, over its partitions, as `source` has it.

        Raises:
            ConfigurationError: the store's name cannot name a topic, or the job is built from its sinks; or a timeout
                is not above 0.
        """
        if store is not None and self.sinks:
            raise ConfigurationError(
                f"options() got store={store!r} for job {self.application_id!r}, which is built from its sinks, each "
                "with a store of its own: name that with name= of its aggregate(), process(), drop_duplicates() or "
                "join()."
            )
        given = {
            "rocksdb": rocksdb,
            "kafka_options": None if kafka is None else kafka_options(kafka),
            "store": store,
            "transaction_timeout_ms": transaction_timeout_ms,
            "restore": restore,
            "call_timeout_s": call_timeout_s,
            "state_cleanup_delay_ms": state_cleanup_delay_ms,
            "allow_faults": allow_faults,
            "max_offsets_per_trigger": max_offsets_per_trigger,
        }
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(self, **changes)

    @property
    def stages(self) -> tuple[StagePlan, ...]:
        """The stages that it is cut into, each before those that read what it writes; one for a job of one topic.

        Raises:
            ConfigurationError: a part is missing, or two branches have one name.
        """
        if self.sinks:
            return plan_stages(self.application_id, self.sinks)
        missing = [
            method
            for method, part in (("source", self.source_topic), ("group_by", self.key), ("aggregate", self.operation))
            if part is None
        ]
        if missing:
            raise ConfigurationError(
                f"Job {self.application_id!r} is not complete: call {', '.join(f'{m}()' for m in missing)} on it"
                f"{' (or process())' if 'aggregate' in missing else ''} before it is run."
            )
        assert self.source_topic is not None
        assert self.key is not None
        assert self.operation is not None
        operation = self.operation
        check_time(self.event_time, self.key, self.window, operation, self.emit)
        if isinstance(operation, DropDuplicates):
            columns = written_columns("drop_duplicates()", self.schema, self.steps)
            operation = dataclasses.replace(operation, columns=columns)
        return (
            StagePlan(
                number=0,
                name=self.store,
                source_topic=self.source_topic,
                schema=self.schema,
                steps=self.steps,
                key=self.key,
                trust_partitioning=self.trust_partitioning,
                operation=operation_in_time(operation, self.window, self.event_time, self.emit),
                event_time=self.event_time,
                store=self.store,
                output_topic=self.sink_topic,
            ),
        )

    def description(self) -> JobDescription:
        """Its stages, topics and stores, without Spark or Kafka; partitions as far as the job itself says them.

        Raises:
            ConfigurationError: as `checked`.
        """
        return describe_stages(self.application_id, self.checked().stages, self.error_policy.topic)

    def describe(self, format: Literal["text", "mermaid", "json"] = "text") -> str:
        """Its stages, topics and stores, for people, without Spark or Kafka.

        Args:
            format: ``"text"``, ``"mermaid"`` for a picture, or ``"json"`` for `description` in one line.

        Raises:
            ConfigurationError: there is no such format, or as `checked`.
        """
        formats: dict[str, Callable[[JobDescription], str]] = {
            "text": description_text,
            "mermaid": mermaid,
            "json": lambda job: to_json(job).decode(),
        }
        if format not in formats:
            raise ConfigurationError(f"describe() got {format!r}: choose one of {', '.join(map(repr, formats))}.")
        return formats[format](self.description())

    def checked(self) -> StatefulJob:
        """Itself.

        Raises:
            ConfigurationError: a part is missing; the schema has a column twice, or a type that Spark does not have; a
                column that the job names does not exist or has a type that cannot be used there; streams of a union
                have a column of two types; or two topics that it names are one, or one is the application's own.
        """
        stages = self.stages
        if self.sinks:
            check_unions(stages)
            return self  # each of its other parts was checked when it was made
        check_topics(self.application_id, stages, [self.sink_topic], self.error_policy.topic, source="source()")
        (stage,) = stages
        check_schema(stage.schema)
        for at, step in enumerate(stage.steps):
            refuse_unknown_columns(step, columns_after(stage.schema, stage.steps[:at]))
        check_columns(stage.schema, stage.steps, stage.key, stage.operation, stage.event_time)
        return self

    def _with_operation(self, method: str, operation: Operation) -> StatefulJob:
        self._refuse_sinks(method)
        if self.operation is not None:
            raise ConfigurationError(
                f"{method}() was called on job {self.application_id!r}, which has an operation already: a job has one, "
                "and a second would replace it. Give all aggregates to one aggregate(), or compute them in process()."
            )
        return dataclasses.replace(self, operation=operation)

    def _refuse_sinks(self, method: str) -> None:
        if self.sinks:
            raise ConfigurationError(
                f"{method}() was called on job {self.application_id!r}, which is built from its sinks: call it on a "
                "stream, and give the job the sink that comes of it."
            )

    def _refuse_another(self, method: str, before: str | None, now: str) -> None:
        self._refuse_sinks(method)
        if before is not None and before != now:
            raise ConfigurationError(
                f"{method}() of job {self.application_id!r} got {now!r} after {before!r}: a job has one, and the "
                "second would replace the first. Call it once."
            )


def _check_grouping(key: object, others: Sequence[object], trust_partitioning: object) -> None:
    if not isinstance(trust_partitioning, bool):
        raise ConfigurationError(
            f"group_by() got trust_partitioning={trust_partitioning!r}: give True or False. True turns off the check "
            "that all records of a group are in one partition."
        )
    if isinstance(key, (Window, SessionWindow)) and not others:
        raise ConfigurationError(
            f"group_by() got {key.text} and no column: give the column that is the records' key before it, such as "
            'group_by("customer", window("at", "1 hour")).'
        )
    windows = [other for other in others if isinstance(other, (Window, SessionWindow))]
    if len(others) > 1 or len(windows) < len(others) or not isinstance(key, str):
        raise ConfigurationError(
            f"group_by() got {', '.join(map(repr, [key, *others]))}: give the name of one column. Make it of several "
            'with with_column() first, such as with_column("shop_day", "concat_ws(\'|\', shop, day)"), and let it be '
            "the records' key."
        )
