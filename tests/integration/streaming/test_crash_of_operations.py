"""A worker with windows, joins and timers dies at every fail point, on a real broker: what it left is finished once.

What a crash does to the protocol itself, and what a standby makes of it, is in `test_crash`; what it does to each
operation by itself, in memory, in `test_every_operation`. Here transactions, their markers and fencing are real.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.records.status import Role, TaskState
from airflow_provider.failpoint import FailPoint
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming import StatefulJob, session_window, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.driver.watches.topic_verification import verify_topics
from airflow_provider.streaming.planner.compile import compile_job
from airflow_provider.streaming.worker.tasks.plan import SlotPlan, TaskPlan
from airflow_provider.testing import InputRecord, JobTester
from airflow_provider.testing.in_memory_clients import Record
from airflow_provider.testing.records import value_bytes
from airflow_provider.testing.source_rows import SourceRecord, SourceRows, types_of_source
from tests.integration.streaming.application import RESTORE_S, WorkerDiedError, WorkerProcess
from tests.integration.streaming.committed import commits, consumer_of, records_of
from tests.unit.testing.operations import OPERATIONS, bought, sorted_out
from tests.waiting import wait_until

pytestmark = pytest.mark.long

RECORDS: Final = 36
"""Of each of three kinds."""
BATCH: Final = 6
MOST_PASSINGS: Final = 6
"""At most so many times is a fail point passed before the worker dies at it."""
SOURCES: Final = ("orders", "customers", "limits", "shown", "clicks")
SHOWN: Final = "stream-stream-outer"
NEWEST: Final = ("both-tables", "per-country", "large-limits")
"""Tables: how often a key comes out depends on where micro-batches end."""
SINKS: Final = (
    "windows",
    "sessions",
    "unique",
    "enriched",
    "enriched-by-id",
    "attributed",
    "bought",
    "sorted",
    "paid",
    *NEWEST,
)


def job_of(application_id: str) -> StatefulJob:
    """Without a step that needs Spark."""
    name = f"{application_id}-{{}}".format
    columns = "id BIGINT, customer STRING, product STRING, amount BIGINT, at BIGINT"
    timed = stream(name("orders"), schema=columns, key="customer", event_time="at", watermark="2 seconds")
    plain = stream(name("orders"), schema=columns, key="customer")
    customers = table(name("customers"), schema="customer STRING, country STRING", key="customer")
    limits = table(name("limits"), schema="customer STRING, credit BIGINT", key="customer")
    shown = stream(name("shown"), schema="ad STRING, shown BIGINT", event_time="shown", watermark="1 second")
    clicks = stream(name("clicks"), schema="ad STRING, clicked BIGINT", event_time="clicked", watermark="1 second")
    count, total = F.count().alias("n"), F.sum("amount").alias("total")
    tumbling = timed.group_by("customer", window("at", "4 seconds"))
    sessions = timed.group_by("product", session_window("at", "1 second"))
    enriched = plain.join(customers, on="customer", how="left", name="enriched")
    results: dict[str, Any] = {
        "windows": tumbling.aggregate(count, total, name="windows", emit="close"),
        "sessions": sessions.aggregate(count, total, name="sessions", emit="close"),
        "unique": timed.drop_duplicates("customer", within="3 seconds"),
        "enriched": enriched,
        # The same join: its stage writes into a sink and in front of another stage.
        "enriched-by-id": enriched,
        "both-tables": customers.join(limits, on="customer", how="outer", name="both"),
        "per-country": customers.group_by("country").aggregate(count, name="countries"),
        "large-limits": limits.filter("credit > 1"),
        "attributed": shown.join(clicks, on="ad", how="outer", before="1 second", after="5 seconds", name="attributed"),
        "bought": bought(timed),
        "sorted": sorted_out(plain),
    }
    results["paid"] = results["sorted"].output("paid")
    keys = {"enriched-by-id": {"key": "id"}}
    return StatefulJob(application_id, *(results[sink].sink(name(sink), **keys.get(sink, {})) for sink in SINKS))


def batches_of(application_id: str, seed: int) -> list[list[InputRecord]]:
    """Each of records of one topic, so that what comes of them does not depend on which stage is ahead."""
    found = list[list[InputRecord]]()
    kinds = [OPERATIONS[kind].records(seed, RECORDS) for kind in ("stream-table-left", "table-table-outer", SHOWN)]
    for first in range(0, RECORDS, BATCH):
        for records in kinds:
            by_topic: dict[str, list[InputRecord]] = {}
            for record in records[first : first + BATCH]:
                topic = f"{application_id}-{record.topic}"
                by_topic.setdefault(topic, []).append(dataclasses.replace(record, topic=topic))
            found += by_topic.values()
    return found


class Shop:
    """The job on the broker: its input, and the worker that works for all of its tasks."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path) -> None:
        self.servers, self.id, self.folder = bootstrap_servers, application_id, folder
        connection, job = KafkaConnection(bootstrap_servers), job_of(application_id)
        admin = TopicAdmin(connection)
        forever = {"retention.ms": "-1"}
        admin.ensure([TopicSpec(name=f"{application_id}-{n}", partitions=1, config=forever) for n in SOURCES])
        create_described_topics(admin, job.description())
        facts, _ = verify_topics(job, admin, 60.0)
        self.job = compile_job(job, facts, types_of_source)
        self._rows = {stage.number: SourceRows(stage.source) for stage in self.job.stages}
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
        self._topics = Topics(bootstrap_servers, {stage.source.topic for stage in self.job.stages})
        self._settings = InstanceSettings(
            application_id=application_id,
            instance="i1",
            incarnation=0,
            state_dir=str(folder / "state"),
            run_dir=str(folder / "run"),
            connection=connection,
        )
        Path(self._settings.run_dir).mkdir()
        self._worker: WorkerProcess | None = None
        self._offsets: dict[TaskId, int] = {}

    def close(self) -> None:
        self._topics.close()
        if self._worker is not None:
            self._worker.kill()

    @property
    def has_worker(self) -> bool:
        """Whether one was started that has not died."""
        return self._worker is not None

    def write(self, records: list[InputRecord]) -> None:
        for given in records:
            assert given.topic is not None
            stage = next(stage for stage in self.job.stages if stage.source.topic == given.topic)
            key, value = given.key_for(stage.source.key_name), value_bytes(given.value)
            self._producer.produce(given.topic, value, key, partition=0, timestamp=given.timestamp_ms or 0)
        assert self._producer.flush(30) == 0

    def start(self, fail_point: str | None, empty: bool) -> None:
        """A worker that owns all tasks, with the stores that the one before left, or with none.

        Raises:
            WorkerDiedError: it died at the fail point.
        """
        if empty:
            shutil.rmtree(self._settings.state_dir, ignore_errors=True)
        points = () if fail_point is None else (fail_point,)
        self._settings = dataclasses.replace(
            self._settings, incarnation=self._settings.incarnation + 1, fail_points=points
        )
        self._worker = WorkerProcess(self._plan(()))
        wait_until(lambda: self._call((), []), 60, "all tasks to run")

    def process(self) -> None:
        """All that is there, one micro-batch a stage after the other, until nothing is left.

        Raises:
            WorkerDiedError: the worker died at its fail point.
        """
        had_rows = True
        while had_rows:
            had_rows = False
            for stage in self.job.stages:
                (task,) = stage.tasks
                begin = self._offsets.get(task, 0)
                found = [(at, record) for at, record in self._topics.read(stage.source.topic) if at >= begin]
                if found:
                    had_rows = True
                    records = [SourceRecord(partition=0, offset=at, record=record) for at, record in found]
                    assert self._call(stage.tasks, self._rows[stage.number].of(records))

    def _call(self, rows_of: tuple[TaskId, ...], rows: list[pa.RecordBatch]) -> bool:
        """Whether all tasks run."""
        assert self._worker is not None
        try:
            statuses = self._worker.call(self._plan(rows_of), rows)
        except WorkerDiedError:
            assert self._worker.exit_status == -signal.SIGKILL
            self._worker = None
            raise
        assert [status.error for status in statuses if status.error is not None] == []
        self._offsets = {status.task: status.source_offset or 0 for status in statuses}
        return all(status.state is TaskState.RUNNING for status in statuses)

    def _plan(self, rows_of: tuple[TaskId, ...]) -> SlotPlan:
        tasks = tuple(TaskPlan(task=task, role=Role.ACTIVE, generation=1) for task in self.job.tasks)
        return SlotPlan(
            settings=self._settings,
            stages=self.job.specs,
            slot=0,
            tasks=tasks,
            budget_s=RESTORE_S,
            rows_of=dict.fromkeys(rows_of),
            idle=frozenset(self.job.tasks),
        )

    def last_commits(self) -> dict[str, dict[str, Any]]:
        """By changelog, what the last commit counts."""
        found = {}
        for stage in self.job.stages:
            changelog = stage.spec.changelog
            found[changelog] = commits(records_of(self.servers, changelog), 0)[-1]
        return found

    def output(self, sink: str) -> list[tuple[str, Any]]:
        records = records_of(self.servers, f"{self.id}-{sink}")
        return [(r.key.decode(), None if r.value is None else msgspec.json.decode(r.value)) for r in records]


class Topics:
    """All committed records of some topics of one partition, as far as they have been read."""

    def __init__(self, bootstrap_servers: str, names: set[str]) -> None:
        self._committed = consumer_of(bootstrap_servers, "read_committed")
        self._all = consumer_of(bootstrap_servers, "read_uncommitted")
        self._records: dict[str, list[tuple[int, Record]]] = {name: [] for name in names}
        self._at = dict.fromkeys(names, 0)
        self._committed.assign([TopicPartition(name, 0, 0) for name in names])

    def close(self) -> None:
        self._committed.close()
        self._all.close()

    def read(self, name: str) -> list[tuple[int, Record]]:
        """With their offsets, up to the end; no transaction is open that somebody does not end."""
        wait_until(lambda: self._end(self._committed, name) == self._end(self._all, name), 30, f"markers in {name}")
        end = self._end(self._committed, name)
        wait_until(lambda: self._read_to(name, end), 30, f"the end of {name}")
        return self._records[name]

    def _read_to(self, name: str, end: int) -> bool:
        while self._at[name] < end and (messages := self._committed.consume(1_000, 0.05)):
            for message in messages:
                topic, offset = message.topic() or "", message.offset() or 0
                if message.error() is None:
                    _, at_ms = message.timestamp()
                    record = Record(key=message.key(), value=message.value(), timestamp_ms=at_ms)
                    self._records[topic].append((offset, record))
                    self._at[topic] = offset + 1
                else:
                    self._at[topic] = max(self._at[topic], offset)
        return self._at[name] >= end

    @staticmethod
    def _end(consumer: Consumer, name: str) -> int:
        return int(consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=30)[1])


@pytest.fixture
def shop(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(bootstrap_servers, application_id, tmp_path)
    yield shop
    shop.close()


def counted(record: dict[str, Any]) -> dict[str, Any]:
    """What a commit says of the task, whoever made it."""
    names = ("processed", "filtered", "failed", "late", "stream_time_ms", "watermark_ms", "side_watermarks_ms")
    return {name: record.get(name) for name in names}


def facts_of(output: dict[str, list[tuple[str, Any]]]) -> dict[str, Any]:
    """What the input came to, by sink."""
    return {sink: dict(rows) if sink in NEWEST else Counter(map(str, rows)) for sink, rows in output.items()}


def in_memory(application_id: str, batches: list[list[InputRecord]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What comes out of the same batches, and the tasks' last commits, where nothing dies."""
    with JobTester(job_of(application_id)) as tester:
        for batch in batches:
            tester.pipe_inputs(batch)
        output = {
            sink: [(record.key, record.value) for record in tester.read_output(f"{application_id}-{sink}")]
            for sink in SINKS
        }
        tasks = tester._active.tasks.values()  # noqa: SLF001
        found = {task.replica.changelog: to_plain(task.commit_record) for task in tasks}
    return facts_of(output), {changelog: counted(record) for changelog, record in found.items()}


def test_what_windows_and_joins_come_to_is_exact_though_their_worker_dies_at_every_fail_point(shop: Shop) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance, batches = random.Random(seed), batches_of(shop.id, seed)
    left, died = chance.sample(list(FailPoint), len(FailPoint)), list[FailPoint]()

    for batch in batches:
        shop.write(batch)
        finished = False
        while not finished:
            try:
                if not shop.has_worker:
                    point = f"{left[-1]}@{chance.randint(1, MOST_PASSINGS)}" if left else None
                    shop.start(point, empty=chance.random() < 0.5)
                shop.process()
                finished = True
            except WorkerDiedError:
                died.append(left.pop())

    assert set(died) == set(FailPoint)
    output, commits_ = in_memory(shop.id, batches)
    assert facts_of({sink: shop.output(sink) for sink in SINKS}) == output
    assert {changelog: counted(record) for changelog, record in shop.last_commits().items()} == commits_
