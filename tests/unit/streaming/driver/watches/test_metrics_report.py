from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.errors import TopicMissingError
from airflow_provider.streaming.driver.watches.last_heartbeat import MetricsReport
from tests.builders import active, instance, standby
from tests.unit.streaming.driver.fakes import settings_in
from tests.waiting import wait_until

STATUS = instance("a", active(0, processed_records=5), standby(1))


class FakeWriter:
    """Keeps what is sent; refuses while it is told to."""

    def __init__(self) -> None:
        self.sent: list[MetricsRecord] = []
        self.refused = 0
        self.refuses = False
        self.closed = False

    def send(self, record: MetricsRecord) -> None:
        if self.refuses:
            self.refused += 1
            raise TopicMissingError("Metrics topic 'app-metrics' does not exist")
        self.sent.append(record)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def writer() -> FakeWriter:
    return FakeWriter()


Start = Callable[..., MetricsReport]


@pytest.fixture
def start(writer: FakeWriter, tmp_path: Path) -> Iterator[Start]:
    """Begins to write the figures of a status, every hundredth of a second."""
    begun: list[MetricsReport] = []

    def make(
        status: Callable[[], InstanceStatus | None] = lambda: STATUS,
        connect: Callable[[], FakeWriter] = lambda: writer,
    ) -> MetricsReport:
        report = MetricsReport(settings_in(tmp_path, metrics_interval_s=0.01), status, {TaskId(0, 0): 300}.get, connect)
        begun.append(report)
        report.start()
        return report

    yield make
    for report in begun:
        report.stop()


def test_last_heartbeat_and_the_size_of_each_store_are_written(start: Start, writer: FakeWriter) -> None:
    start()

    wait_until(lambda: len(writer.sent) > 1, 10, "two records")
    assert {task.task: task.store_bytes for task in writer.sent[0].tasks} == {TaskId(0, 0): 300, TaskId(0, 1): None}
    assert writer.sent[0].tasks[0].processed_records == 5


def test_nothing_is_written_before_the_first_heartbeat(start: Start, writer: FakeWriter) -> None:
    statuses = iter([None, None, STATUS])

    start(status=lambda: next(statuses, STATUS))

    wait_until(lambda: writer.sent, 10, "a record")
    assert next(statuses, None) is None, "it had looked before"


def test_records_that_cannot_be_written_are_one_line_in_the_log_until_they_can(
    start: Start, writer: FakeWriter, caplog: pytest.LogCaptureFixture
) -> None:
    writer.refuses = True
    with caplog.at_level(logging.WARNING):
        start()
        wait_until(lambda: writer.refused > 2, 10, "some tries")
        writer.refuses = False
        wait_until(lambda: writer.sent, 10, "a record")

    lines = [record.message for record in caplog.records if "not kept" in record.message]
    assert lines == [
        "the figures of this minute are not kept: TopicMissingError: Metrics topic 'app-metrics' does not exist"
    ]


def test_client_that_cannot_be_made_is_tried_again(start: Start, writer: FakeWriter) -> None:
    tries: list[int] = []

    def connect() -> FakeWriter:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("no such file: ca.pem")
        return writer

    start(connect=connect)

    wait_until(lambda: writer.sent, 10, "a record")
    assert len(tries) == 3


def test_stopped_report_closes_its_client(start: Start, writer: FakeWriter) -> None:
    report = start()
    wait_until(lambda: writer.sent, 10, "a record")

    report.stop()

    wait_until(lambda: writer.closed, 10, "its end")
