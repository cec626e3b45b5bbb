from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.status import InstanceState, InstanceStatus
from airflow_provider.streaming.driver.disturbances import CutStatusWriter, Disturbances
from airflow_provider.streaming.worker.disturbance import Disturbance
from tests.builders import assigned, instance

TASK = TaskId(0, 0)
CUT = Command(id="f1", kind=CommandKind.CUT_CONNECTION, instance="a", tasks=(TASK,))
MINE, MOVED = assigned("a b"), assigned("b a", generation=2)


class FakeWriter:
    """Keeps what reaches the brokers."""

    def __init__(self) -> None:
        self.sent: list[InstanceStatus] = []
        self.forgotten: list[str] = []

    def forget(self, value: Command) -> None:
        self.forgotten.append(value.id)

    def send(self, value: InstanceStatus) -> None:
        self.sent.append(value)

    def check(self) -> None:
        pass

    def write(self, value: InstanceStatus) -> None:
        self.sent.append(value)

    def close(self) -> None:
        pass


class FakeClock:
    """The monotonic clock, as the test sets it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


@pytest.fixture
def disturbances() -> Iterator[Disturbances]:
    disturbances = Disturbances()
    yield disturbances
    disturbances.shift_clock(0.0)


def cut(disturbances: Disturbances) -> None:
    disturbances.arm_cut("f1", [TASK])
    disturbances.told(instance("a", last_commands=("f1",)))


def test_connection_is_cut_once_a_heartbeat_has_told_of_it(disturbances: Disturbances) -> None:
    reached = FakeWriter()
    writer = CutStatusWriter(reached, disturbances)
    disturbances.arm_cut("f1", [TASK])

    writer.send(instance("a"))
    before = disturbances.now
    writer.send(instance("a", last_commands=("f1",)))
    assert (before, disturbances.now) == (Disturbance(), Disturbance(cut=True))
    writer.forget(CUT)
    writer.send(instance("a", last_commands=("f1",)))

    assert len(reached.sent) == 2
    assert reached.forgotten == []


def test_end_of_an_instance_is_written_although_its_connection_is_cut(disturbances: Disturbances) -> None:
    reached = FakeWriter()
    cut(disturbances)

    CutStatusWriter(reached, disturbances).write(instance("a", state=InstanceState.STOPPED))

    assert [status.state for status in reached.sent] == [InstanceState.STOPPED]


def test_connection_comes_back_some_seconds_after_the_tasks_went_elsewhere(
    disturbances: Disturbances, clock: FakeClock
) -> None:
    cut(disturbances)
    clock.now += 60
    assert disturbances.cut_goes_on("a", MINE)
    assert disturbances.cut_goes_on("a", MOVED)
    clock.now += 4
    assert disturbances.cut_goes_on("a", MOVED)
    clock.now += 2

    assert not disturbances.cut_goes_on("a", MOVED)
    assert not disturbances.now.cut


def test_connection_comes_back_after_five_minutes_where_nothing_answers(
    disturbances: Disturbances, clock: FakeClock
) -> None:
    cut(disturbances)
    clock.now += 299
    assert disturbances.cut_goes_on("a", MINE)
    clock.now += 2

    assert not disturbances.cut_goes_on("a", MINE)


def test_clock_is_moved_here_and_told_to_the_workers(disturbances: Disturbances) -> None:
    before = time.time()

    disturbances.shift_clock(1_800.0)

    assert time.time() - before > 1_700
    assert disturbances.now == Disturbance(cut=False, clock_shift_s=1_800.0)
