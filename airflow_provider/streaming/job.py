"""The job API: what a user writes and submits with spark-submit."""

from __future__ import annotations

import dataclasses
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.errors import ConfigurationError
from airflow_provider.names import check_name
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.streaming.aggregate import Aggregate, Aggregation
from airflow_provider.streaming.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.json_decoder import JsonDecoder
from airflow_provider.streaming.operation import Operation
from airflow_provider.streaming.process import Process, ProcessFunction
from airflow_provider.streaming.settings import INSTANCE_FILE_VARIABLE, InstanceSettings

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["Filter", "StatefulJob", "WithColumn"]


@dataclass(frozen=True)
class Filter:
    """A step that drops rows and counts them; see `StatefulJob.filter`."""

    condition: str | Column
    name: str


@dataclass(frozen=True)
class WithColumn:
    """A step that adds or replaces a column; see `StatefulJob.with_column`."""

    name: str
    expression: str | Column


@dataclass(frozen=True)
class StatefulJob:
    """A stateful streaming job over one topic, built step by step; every method returns a new job.

    ::

        job = (
            StatefulJob("orders-per-customer")
            .source("orders", schema="customer STRING, amount DOUBLE")
            .filter("amount IS NOT NULL", name="no_amount")
            .group_by("customer")
            .aggregate(F.count().alias("orders"), F.sum("amount").alias("spent"))
            .sink("spent-per-customer")
        )
        if __name__ == "__main__":
            job.run()

    Args:
        application_id: names the application: it prefixes its topics, state folder and transactional ids. Changing it
            starts a new application with empty state.
    """

    application_id: str
    source_topic: str | None = None
    schema: str | None = None
    steps: tuple[Filter | WithColumn, ...] = ()
    key: str | None = None
    operation: Operation | None = None
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

    def __post_init__(self) -> None:
        """Refuse names that cannot be topics and folders."""
        check_name("application id", self.application_id)
        check_name("store", self.store)

    def source(
        self, topic: str, schema: str | None = None, max_offsets_per_trigger: int | None = 200_000
    ) -> StatefulJob:
        """Read a topic.

        Besides the value's fields a row has ``_source``: a struct of topic, partition, offset, timestamp and key.

        Args:
            topic: its partition *i* is task *i*.
            schema: the JSON value's schema in Spark DDL, such as ``"id STRING, amount DOUBLE"``. None leaves the value
                as it is: columns ``key`` and ``value``, both BINARY.
            max_offsets_per_trigger: how many records a micro-batch may hold, over its partitions; None for no bound.
        """
        return dataclasses.replace(
            self, source_topic=topic, schema=schema, max_offsets_per_trigger=max_offsets_per_trigger
        )

    def filter(self, condition: str | Column, name: str) -> StatefulJob:
        """Keep the rows for which `condition` is true; count the others under `name`.

        The count is committed with the state, so it is exact through crashes. A value that does not decode is never
        dropped by a filter: it stops the task.

        Args:
            condition: Spark SQL, or a Column. Null counts as false.
            name: of the count, in the commit record.
        """
        return dataclasses.replace(self, steps=(*self.steps, Filter(condition, name)))

    def with_column(self, name: str, expression: str | Column) -> StatefulJob:
        """Add or replace a column, computed from its own row.

        Args:
            name: of the column.
            expression: Spark SQL, or a Column.
        """
        return dataclasses.replace(self, steps=(*self.steps, WithColumn(name, expression)))

    def group_by(self, key: str) -> StatefulJob:
        """Keep state by this column: a function of the record's key, because a task sees only its own partition."""
        return dataclasses.replace(self, key=key)

    def aggregate(self, *aggregates: Aggregate) -> StatefulJob:
        """Keep aggregates by key; emit them, once a key and micro-batch, as a JSON object."""
        return dataclasses.replace(self, operation=Aggregation(aggregates))

    def process(
        self, function: ProcessFunction, columns: tuple[str, ...] | list[str], timeout_s: float | None = None
    ) -> StatefulJob:
        """Call a Python function once a key and micro-batch.

        Args:
            function: ``function(key, rows, state)``; see `airflow_provider.streaming.process.ProcessFunction`.
            columns: the columns that its rows hold.
            timeout_s: how long a call may take, in seconds; then it counts as raised. None for no limit.
        """
        return dataclasses.replace(self, operation=Process(function, tuple(columns), timeout_s))

    def sink(self, topic: str) -> StatefulJob:
        """Write the output to a topic: the record's key is the key, its value a JSON object."""
        return dataclasses.replace(self, sink_topic=topic)

    def on_error(self, policy: Literal["fail", "skip", "dead_letter"], topic: str | None = None) -> StatefulJob:
        """Say what becomes of a record that does not decode, has no usable key, or makes the job's function raise.

        Args:
            policy: ``"fail"`` (the default) stops the task with an error that names the record; ``"skip"`` leaves it
                out and counts it; ``"dead_letter"`` also writes it, as it was, to `topic`, with its topic, partition,
                offset, timestamp, error and stack in headers, in the transaction of the micro-batch.
            topic: the dead-letter topic, which has to exist.

        Raises:
            ConfigurationError: `topic` is missing, or named where none is written.
        """
        return dataclasses.replace(self, error_policy=ErrorPolicy(OnError(policy), topic))

    def certify(self, interval_s: float | None) -> StatefulJob:
        """Say how often each standby's store is compared with what its active's held at the same position.

        Args:
            interval_s: between two comparisons, in seconds; default 600, the first as soon as the standby is warm.
                Each reads the whole store, on a quarter of a core at the most. None for never.

        Raises:
            ConfigurationError: it is not above 0.
        """
        if interval_s is not None and interval_s <= 0:
            raise ConfigurationError(
                f"certify() got interval_s={interval_s:g}: it must be above 0 seconds, or None for never."
            )
        return dataclasses.replace(self, certify_interval_s=interval_s)

    def snapshots(self, url: str, interval_s: float = 3600.0, keep: int = 3) -> StatefulJob:
        """Copy the standbys' stores elsewhere, so that an empty store need not read its whole changelog.

        Args:
            url: a folder that fsspec can open, such as ``s3://bucket/prefix`` or ``file:///mnt/shared``, without
                credentials: fsspec takes those from the environment or the credentials files of the instances' hosts.
                What it needs for the URL's scheme (such as s3fs) has to be installed there.
            interval_s: between two snapshots of one standby, in seconds. Only files that are new are sent.
            keep: how many of each standby are kept.

        Raises:
            ConfigurationError: the URL carries a login, or a number is not above 0.
        """
        return dataclasses.replace(self, snapshot_settings=SnapshotSettings(url, interval_s, keep))

    def options(
        self,
        rocksdb: RocksDBOptions | None = None,
        kafka: dict[str, str] | None = None,
        store: str | None = None,
        transaction_timeout_ms: int | None = None,
        restore: RestoreSettings | None = None,
        call_timeout_s: float | None = None,
    ) -> StatefulJob:
        """Set what has good defaults.

        Args:
            rocksdb: the stores' settings.
            kafka: further options of Spark's Kafka source, such as ``kafka.max.poll.records``.
            store: the store's name; default ``state``.
            transaction_timeout_ms: after which brokers abort what a dead owner left open; default 60,000.
            restore: how a restore may use the machine: memory, parallelism, fetch sizes, rate.
            call_timeout_s: how long a micro-batch may keep a Python worker; then the worker is ended, and the task
                whose batch it was fails. Default 600.
        """
        return dataclasses.replace(
            self,
            rocksdb=rocksdb or self.rocksdb,
            kafka_options=tuple((kafka or dict(self.kafka_options)).items()),
            store=store or self.store,
            transaction_timeout_ms=transaction_timeout_ms or self.transaction_timeout_ms,
            restore=restore or self.restore,
            call_timeout_s=call_timeout_s or self.call_timeout_s,
        )

    def run(self) -> None:
        """Run as the instance that the launcher's environment names, until it is asked to stop; then exit.

        Raises:
            ConfigurationError: the job is not complete, or was not started by a launcher.
        """
        from airflow_provider.streaming.instance import Instance

        path = os.environ.get(INSTANCE_FILE_VARIABLE)
        if not path:
            raise ConfigurationError(
                f"{INSTANCE_FILE_VARIABLE} is not set: deploy the job with DeployInstanceOperator, or start it with "
                "airflow_provider.streaming.launcher."
            )
        settings = InstanceSettings.read(Path(path))
        if settings.application_id != self.application_id:
            raise ConfigurationError(
                f"The job's application id is {self.application_id!r}, it was deployed as {settings.application_id!r}: "
                "use the same in the operator and in the job's file."
            )
        if self.call_timeout_s is not None:
            settings = dataclasses.replace(settings, call_timeout_s=self.call_timeout_s)
        sys.exit(Instance(self.checked(), settings).run())

    def checked(self) -> StatefulJob:
        """Itself.

        Raises:
            ConfigurationError: a part is missing.
        """
        missing = [
            method
            for method, part in (("source", self.source_topic), ("group_by", self.key), ("aggregate", self.operation))
            if part is None
        ]
        if missing:
            raise ConfigurationError(
                f"Job {self.application_id!r} is not complete: call {', '.join(f'{m}()' for m in missing)} on it"
                f"{' (or process())' if 'aggregate' in missing else ''} before run()."
            )
        return self

    @property
    def decoder(self) -> JsonDecoder | None:
        """Decodes the values in the worker, when no step needs them in Spark and their types are plain."""
        if self.steps or self.schema is None or self.operation is None:
            return None
        decoder = JsonDecoder.of(self.schema)
        if decoder is None:
            return None
        kinds = {field.name: field.kind for field in decoder.fields}
        # A double as a key is written by Spark's rules, which are its own.
        plain_key = kinds.get(str(self.key), "DOUBLE") != "DOUBLE"
        return decoder if plain_key and set(self.operation.columns) <= set(kinds) else None

    @property
    def filters(self) -> tuple[str, ...]:
        """The names of the counting filters, in order."""
        return tuple(step.name for step in self.steps if isinstance(step, Filter))
