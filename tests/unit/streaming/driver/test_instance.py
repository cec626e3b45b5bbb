from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.control.records.status import InstanceState
from airflow_provider.errors import TopicMissingError
from airflow_provider.launch.instance_settings import EXIT_REPORTED
from airflow_provider.streaming.driver import instance
from airflow_provider.streaming.driver.instance import Instance, num_slots
from tests.unit.streaming.driver.fakes import JOB, settings_in


class FakeHeartbeat:
    """Keeps how the instance ended."""

    def __init__(self) -> None:
        self.started = False
        self.ended: tuple[InstanceState, Exception | None] | None = None

    def start(self) -> None:
        self.started = True

    def end(self, state: InstanceState, error: Exception | None) -> None:
        self.ended = (state, error)


@pytest.fixture(autouse=True)
def process_is_left_as_it_was() -> Iterator[None]:
    """An instance is its process's main: it sets signal handlers and levels of logs."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    level = logging.getLogger("py4j").level
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    logging.getLogger("py4j").setLevel(level)


@pytest.mark.parametrize(
    ("cores", "num_tasks", "slots"),
    [
        pytest.param(2, 6, 2, id="one-a-core"),
        pytest.param(8, 3, 3, id="no-more-than-tasks"),
        pytest.param(1, 1, 1, id="one-at-least"),
    ],
)
def test_slots_are_the_lesser_of_cores_and_tasks(cores: int, num_tasks: int, slots: int) -> None:
    assert num_slots(cores, num_tasks) == slots


def test_instance_that_refuses_reports_why_and_says_so_with_its_exit_status(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> Any:
        raise TopicMissingError("Topic 'in' does not exist")

    monkeypatch.setattr(instance, "read_view_if_there", lambda *_, **__: None)
    monkeypatch.setattr(instance, "verify_topics", refuse)
    heartbeat: Any = FakeHeartbeat()

    assert Instance(JOB, settings_in(tmp_path), heartbeat).run() == EXIT_REPORTED
    assert heartbeat.started
    state, error = heartbeat.ended
    assert (state, type(error), str(error)) == (InstanceState.ENDED, TopicMissingError, "Topic 'in' does not exist")


def test_error_that_is_none_of_ours_leaves_the_report_to_the_launcher(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def break_down(*_: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(instance, "read_view_if_there", lambda *_, **__: None)
    monkeypatch.setattr(instance, "verify_topics", break_down)
    heartbeat: Any = FakeHeartbeat()

    with pytest.raises(ZeroDivisionError):
        Instance(JOB, settings_in(tmp_path), heartbeat).run()
    assert heartbeat.ended is None
