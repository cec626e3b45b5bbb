from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from airflow_provider.common.in_thread import in_thread
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.driver.spark.source_query import SourceQuery, Wait
from airflow_provider.streaming.planner.job_check import kafka_options
from tests.unit.streaming.driver.fakes import compiled
from tests.waiting import wait_until

# Decoded in the worker, so that no expression of Spark's is needed.
UNBOUNDED = StatefulJob(
    "app",
    stream("in", schema="key STRING", key="key").group_by("key").aggregate(F.count(), name="state"),
    max_offsets_per_trigger=None,
)
PLAIN = UNBOUNDED.options(max_offsets_per_trigger=500)


class FakeStreamingQuery:
    def __init__(self) -> None:
        self.isActive = True
        self.failed: Exception | None = None
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1
        self.isActive = False

    def exception(self) -> Exception | None:
        return self.failed


class FakeStream:
    """Spark's reader, the rows and the writer in one; keeps what it is asked for."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}
        self.name = ""
        self.query = FakeStreamingQuery()
        self.refused: Exception | None = None
        self.micro_batch: Callable[[Any, int], None] = lambda *_: None

    def options(self, **options: str) -> FakeStream:
        self.asked.update(options)
        return self

    def option(self, name: str, value: str) -> FakeStream:
        self.asked[name] = value
        return self

    def foreachBatch(self, function: Callable[[Any, int], None]) -> FakeStream:
        self.micro_batch = function
        return self

    def queryName(self, name: str) -> FakeStream:
        self.name = name
        return self

    def start(self) -> FakeStreamingQuery:
        if self.refused is not None:
            raise self.refused
        return self.query

    @property
    def readStream(self) -> FakeStream:
        return self

    @property
    def writeStream(self) -> FakeStream:
        return self

    def __getattr__(self, _: str) -> Any:
        return lambda *_: self


class FakeWait:
    """Waits until a record is said to be there, or the wait is given up."""

    def __init__(self) -> None:
        self.partitions: list[int] = []
        self.offsets: list[dict[int, int | None]] = []
        self.there = threading.Event()
        self.closed = False

    def open(self, partitions: Collection[int]) -> FakeWait:
        self.partitions = list(partitions)
        return self

    def wait(self, offsets: Mapping[int, int | None], given_up: Callable[[], bool]) -> None:
        self.offsets.append(dict(offsets))
        wait_until(lambda: self.there.is_set() or given_up(), 10, "a record, or the query's end")

    def close(self) -> None:
        self.closed = True


def query_of(
    stream: FakeStream,
    folder: Path,
    job: StatefulJob = PLAIN,
    on_batch: Callable[[SourceQuery, Any], Any] = lambda *_: {},
    open_wait: Callable[[Collection[int]], Wait] | None = None,
) -> SourceQuery:
    query = SourceQuery(
        cast(SparkSession, stream),
        compiled(job).stages[0].source,
        KafkaConnection("broker:9092"),
        {TaskId(0, 2): 7, TaskId(0, 10): None},
        folder / "checkpoint",
        on_batch,
        open_wait,
    )
    query.start()
    return query


def test_each_task_is_read_from_where_it_stopped_and_a_new_one_from_the_earliest(tmp_path: Path) -> None:
    stream = FakeStream()

    query_of(stream, tmp_path)

    assert json.loads(stream.asked["assign"]) == {"in": [2, 10]}
    assert json.loads(stream.asked["startingOffsets"]) == {"in": {"2": 7, "10": -2}}
    assert stream.asked["kafka.isolation.level"] == "read_committed"
    assert stream.asked["failOnDataLoss"] == "true"
    assert stream.asked["maxOffsetsPerTrigger"] == "500"
    assert stream.name.startswith("app-tasks-0_2-0_10-")


def test_micro_batches_have_no_bound_where_the_job_sets_none(tmp_path: Path) -> None:
    stream = FakeStream()

    query_of(stream, tmp_path, UNBOUNDED)

    assert "maxOffsetsPerTrigger" not in stream.asked


def test_many_records_come_with_each_answer_of_the_brokers(tmp_path: Path) -> None:
    """By default the consumer takes 500 at once, and Spark asks for the ends of the log twice for each of them."""
    stream = FakeStream()

    query_of(stream, tmp_path)

    assert int(stream.asked["kafka.max.poll.records"]) >= 10_000
    assert int(stream.asked["kafka.max.partition.fetch.bytes"]) >= 8 << 20


def test_brokers_do_not_keep_a_fetch_that_the_ends_of_the_log_wait_behind(tmp_path: Path) -> None:
    """By default for 500 ms, and so each partition of each micro-batch that gets to the end of its log."""
    stream = FakeStream()

    query_of(stream, tmp_path)

    assert int(stream.asked["kafka.fetch.max.wait.ms"]) <= 20


def test_options_of_the_job_reach_the_source(tmp_path: Path) -> None:
    stream = FakeStream()

    query_of(stream, tmp_path, PLAIN.options(kafka={"kafka.max.poll.records": "10"}))

    assert stream.asked["kafka.max.poll.records"] == "10"


def test_every_option_that_the_source_sets_itself_is_refused_of_the_job(tmp_path: Path) -> None:
    stream = FakeStream()
    login = KafkaConnection(
        "broker:9092",
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="u",
        sasl_password="p",
        ssl_ca_location="/ca.pem",
    )
    SourceQuery(
        cast(SparkSession, stream),
        compiled(PLAIN).stages[0].source,
        login,
        {TaskId(0, 2): 7},
        tmp_path / "c",
        lambda *_: {},
    ).start()
    # What is set for speed is the job's to change; the checkpoint is the writer's.
    for name in stream.asked.keys() - {
        "kafka.max.poll.records",
        "kafka.max.partition.fetch.bytes",
        "kafka.fetch.max.wait.ms",
        "checkpointLocation",
    }:
        with pytest.raises(ConfigurationError, match=name):
            kafka_options({name: "any"})


def test_checkpoint_of_an_earlier_query_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "checkpoint" / "offsets"
    left.mkdir(parents=True)

    query_of(FakeStream(), tmp_path)

    assert not left.exists()


def test_checkpoint_goes_with_the_query(tmp_path: Path) -> None:
    stream = FakeStream()
    query = query_of(stream, tmp_path)
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    stream.query.isActive = False

    query.end()

    assert not (tmp_path / "checkpoint").exists()


def test_micro_batch_is_handed_on_with_its_query(tmp_path: Path) -> None:
    stream, rows, got = FakeStream(), object(), list[tuple[SourceQuery, Any]]()
    query = query_of(stream, tmp_path, on_batch=lambda *batch: got.append(batch))

    stream.micro_batch(rows, 0)

    assert got == [(query, rows)]


def test_query_that_is_to_leave_hands_on_no_micro_batch_and_has_no_error(tmp_path: Path) -> None:
    stream, got = FakeStream(), list[Any]()
    query = query_of(stream, tmp_path, on_batch=lambda *batch: got.append(batch))

    query.leave()
    stream.micro_batch(object(), 1)

    assert got == []
    assert (query.leaving, query.active) == (True, True)
    query.end()
    assert (stream.query.stopped, query.active) == (1, False)
    assert query.error is None


def test_end_waits_for_the_micro_batch_under_way_and_stops_nothing_in_the_middle_of_it(tmp_path: Path) -> None:
    stream, begun, let = FakeStream(), threading.Event(), threading.Event()

    def on_batch(query: SourceQuery, _: Any) -> None:
        begun.set()
        wait_until(lambda: query.leaving, 10, "the query to be asked to end")
        let.wait(10)
        assert stream.query.stopped == 0

    query = query_of(stream, tmp_path, on_batch=on_batch)
    batch = in_thread(lambda: stream.micro_batch(object(), 0), "micro-batch")
    assert begun.wait(10)

    ended = in_thread(query.end, "end")
    let.set()

    assert batch.result(10) is None
    ended.result(10)
    assert (stream.query.stopped, query.active) == (1, False)


def test_spark_asks_for_the_next_micro_batch_when_there_is_something_to_ask_for(tmp_path: Path) -> None:
    stream, wait = FakeStream(), FakeWait()
    query_of(stream, tmp_path, on_batch=lambda *_: {2: 8, 10: None}, open_wait=wait.open)

    batch = in_thread(lambda: stream.micro_batch(object(), 0), "micro-batch")
    wait_until(lambda: wait.offsets, 10, "the query to wait")
    assert not batch.done()
    wait.there.set()

    assert batch.result(10) is None
    assert (wait.partitions, wait.offsets) == ([2, 10], [{2: 8, 10: None}])


def test_nothing_is_waited_for_where_no_task_is_left(tmp_path: Path) -> None:
    stream, wait = FakeStream(), FakeWait()
    query_of(stream, tmp_path, on_batch=lambda *_: {}, open_wait=wait.open)

    stream.micro_batch(object(), 0)

    assert wait.offsets == []


def test_query_that_waits_for_input_ends_at_once(tmp_path: Path) -> None:
    stream, wait = FakeStream(), FakeWait()
    query = query_of(stream, tmp_path, on_batch=lambda *_: {2: 8}, open_wait=wait.open)
    batch = in_thread(lambda: stream.micro_batch(object(), 0), "micro-batch")
    wait_until(lambda: wait.offsets, 10, "the query to wait")

    query.end()

    assert batch.result(10) is None
    assert (stream.query.stopped, query.active, wait.closed) == (1, False, True)


def test_query_that_does_not_start_leaves_nothing_open(tmp_path: Path) -> None:
    stream, wait = FakeStream(), FakeWait()
    stream.refused = ValueError("no such column")

    with pytest.raises(ValueError, match="no such column"):
        query_of(stream, tmp_path, open_wait=wait.open)

    assert wait.closed


@pytest.mark.parametrize(
    ("failed", "error"),
    [(ValueError("offset 7 is gone"), "offset 7 is gone"), (None, "it ended without an error")],
    ids=["an-error", "no-error"],
)
def test_query_that_ended_by_itself_says_why(failed: Exception | None, error: str, tmp_path: Path) -> None:
    stream = FakeStream()
    query = query_of(stream, tmp_path)
    assert (query.error, query.active) == (None, True)

    stream.query.isActive, stream.query.failed = False, failed

    assert query.error == error
    assert query.active_for_s == 0.0
