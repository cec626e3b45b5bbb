"""When a task counts as one without input; what comes of it is tested through the tester."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.streaming import StatefulJob, stream, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.worker.step.idle_time import IdleTime
from airflow_provider.testing import JobTester
from tests.unit.streaming.worker.bench import GROUP

TASK = TaskId(0, 0)
JOB = StatefulJob(
    "idle",
    stream(
        "events",
        schema="id STRING, at BIGINT",
        key="id",
        event_time="at",
        watermark="0 seconds",
        idle_timeout="30 seconds",
    )
    .group_by("id", window("at", "1 minute"))
    .aggregate(F.count().alias("n"), emit="close")
    .sink("out"),
)


class Watched:
    """A task of one open window that ends a minute after time 0, and a clock."""

    def __init__(self, tester: JobTester) -> None:
        self.now_s, self.tester = 1_000.0, tester
        self.time = IdleTime(
            tasks=tester._active.tasks,  # noqa: SLF001
            isolating_batch=lambda *_: contextlib.nullcontext(),
            group=GROUP,
            clock=lambda: self.now_s,
        )

    def pass_s(self, seconds: float, idle: bool = True) -> None:
        self.now_s += seconds
        self.time.tick([TASK] if idle else [])

    @property
    def closed(self) -> int:
        return len(self.tester.read_output())


@pytest.fixture
def watched() -> Iterator[Watched]:
    with JobTester(JOB) as tester:
        tester.pipe_input({"id": "a", "at": 0})
        yield Watched(tester)


def test_time_goes_on_while_it_is_seen_that_nothing_comes(watched: Watched) -> None:
    for _ in range(4):
        watched.pass_s(29)
    assert watched.closed == 0  # 87 s since the first time it was seen, less 30
    watched.pass_s(3)
    assert watched.closed == 1


@pytest.mark.parametrize("known", [True, False], ids=["not looked at for long", "not idle once"])
def test_wait_begins_anew_after_a_time_of_which_nothing_is_known(watched: Watched, known: bool) -> None:
    watched.pass_s(0)
    for _ in range(3):
        watched.pass_s(29)
    watched.pass_s(61 if known else 1, idle=known)
    watched.pass_s(0)
    for _ in range(3):
        watched.pass_s(29)
    assert watched.closed == 0
    watched.pass_s(29)
    assert watched.closed == 1


def test_task_that_is_not_open_is_passed_over(watched: Watched) -> None:
    watched.time.tick([TaskId(0, 7)])
