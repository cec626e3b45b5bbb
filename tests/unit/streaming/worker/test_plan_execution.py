from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskState
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, FencedError
from airflow_provider.streaming.worker import slot as plan_execution
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from airflow_provider.testing.in_memory_clients import InMemoryLog
from tests.unit.streaming.worker.bench import Bench, active, commit_elsewhere, standby


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        pytest.param(standby(0), active(0, 2), TaskState.RESTORING, id="promoted"),
        pytest.param(active(0), active(0, 2), TaskState.RESTORING, id="named-again-by-a-newer-generation"),
        pytest.param(active(0), standby(0, 2), TaskState.FOLLOWING, id="demoted"),
        pytest.param(active(0), active(0), TaskState.RUNNING, id="the-same"),
        pytest.param(active(0), active(0, has_standbys=True), TaskState.RUNNING, id="a-standby-came"),
        pytest.param(standby(0), standby(0, 2), TaskState.FOLLOWING, id="standby-in-a-newer-generation"),
    ],
)
def test_role_follows_the_plan(before: TaskPlan, after: TaskPlan, state: TaskState, bench: Bench) -> None:
    bench.hold(before)

    bench.hold(after, follow=False)

    assert (bench.registry.tasks[TaskId(0, 0)].state, bench.registry.tasks[TaskId(0, 0)].plan) == (state, after)


@pytest.mark.parametrize(
    ("failed", "newer", "state"),
    [
        pytest.param(active(0), active(0, 2), TaskState.RUNNING, id="active"),
        pytest.param(standby(0), standby(0, 2), TaskState.FOLLOWING, id="standby"),
        pytest.param(standby(0), active(0, 2), TaskState.RUNNING, id="promoted"),
        pytest.param(active(0), standby(0, 2), TaskState.FOLLOWING, id="demoted"),
    ],
)
def test_failed_task_is_tried_again_by_a_newer_generation_alone(
    failed: TaskPlan, newer: TaskPlan, state: TaskState, bench: Bench, log: InMemoryLog
) -> None:
    bench.hold(failed)
    bench.registry.tasks[TaskId(0, 0)].fail(ConfigurationError("a right that was taken away for a while"))
    commit_elsewhere(log, 0, 1, k=1)

    bench.hold(failed)
    assert bench.state() is TaskState.FAILED
    bench.hold(newer)

    assert (bench.state(), bench.registry.tasks[TaskId(0, 0)].error) == (state, None)
    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [b"1"]


def test_several_are_fenced_and_one_that_cannot_be_holds_up_no_other(bench: Bench) -> None:
    bench.fence_errors.append(BrokerUnreachableError("no answer"))

    bench.hold(active(0), active(1))

    states = sorted(task.state.name for task in bench.registry.tasks.values())
    assert states == ["OWNING", "RUNNING"]
    bench.hold(active(0), active(1))
    assert {task.state for task in bench.registry.tasks.values()} == {TaskState.RUNNING}


def test_changelog_is_read_to_an_end_that_was_asked_for_after_the_fencing(bench: Bench, log: InMemoryLog) -> None:
    bench.hold(standby(0))
    commit_elsewhere(log, 0, 1, k=1)
    bench.reader.asked.clear()

    bench.execution.apply_plan([active(0, 2)])
    assert bench.reader.asked == []
    bench.follower.follow(0.0)

    assert bench.reader.asked == [0]
    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [b"1"]


def test_fenced_task_fences_again_when_no_newer_assignment_came(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.hold(active(0))
    bench.registry.tasks[TaskId(0, 0)].on_fenced(FencedError("a newer owner exists"))
    bench.hold(active(0))
    assert bench.state() is TaskState.CLOSED

    monkeypatch.setattr(plan_execution, "_FENCE_AGAIN_S", 0.0)
    bench.hold(active(0))

    assert bench.state() is TaskState.RUNNING


def test_fenced_task_follows_when_the_newer_assignment_demotes_it(bench: Bench, log: InMemoryLog) -> None:
    bench.hold(active(0))
    commit_elsewhere(log, 0, 2, k=1)
    bench.registry.tasks[TaskId(0, 0)].on_fenced(FencedError("a newer owner exists"))

    bench.hold(standby(0, 2))

    assert bench.registry.tasks[TaskId(0, 0)].status().warm
    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [b"1"]


class Walks:
    """Counts how often the registry begins with the plans."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.number = bench, 0
        self._begin = bench.registry.begin_call

    def begin_call(self, plans: Sequence[TaskPlan]) -> None:
        self.number += 1
        self._begin(plans)

    def of(self, *plans: TaskPlan, number: int | None = 1) -> int:
        """Of one call."""
        before = self.number
        self.bench.execution.apply_plan(plans, number)
        self.bench.follower.follow(0.0)
        return self.number - before


@pytest.fixture
def walks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Walks:
    walks = Walks(bench)
    monkeypatch.setattr(bench.registry, "begin_call", walks.begin_call)
    # Each test is a moment.
    monkeypatch.setattr(plan_execution, "_LOOK_S", 1e9)
    return walks


@pytest.mark.parametrize("plan", [active(0), standby(0)], ids=["active", "standby"])
def test_plan_that_was_carried_out_is_not_looked_at_again(plan: TaskPlan, walks: Walks) -> None:
    walks.of(plan)
    walks.of(plan)  # what was restored in the first call is settled

    assert [walks.of(plan) for _ in range(3)] == [0, 0, 0]
    assert walks.of(plan, number=2) == 1
    assert walks.of(plan, number=1) == 1
    assert walks.of(plan, number=None) == walks.of(plan, number=None) == 1


def test_promotion_is_carried_out_by_its_number(walks: Walks) -> None:
    for _ in range(3):
        walks.of(standby(0))

    assert walks.of(active(0, 2), number=2) == 1
    assert walks.bench.state() is TaskState.RUNNING


def test_plan_is_looked_at_again_for_what_it_does_not_say(walks: Walks, monkeypatch: pytest.MonkeyPatch) -> None:
    walks.of(active(0))
    walks.of(active(0))
    monkeypatch.setattr(plan_execution, "_LOOK_S", 0.0)

    shutil.rmtree(walks.bench.registry.tasks[TaskId(0, 0)].replica.store.path)

    assert walks.of(active(0)) == 1
    assert "were removed" in str(walks.bench.registry.error(TaskId(0, 0)))


def failed(bench: Bench) -> None:
    bench.registry.tasks[TaskId(0, 0)].fail(ConfigurationError("no"))


def given_up(bench: Bench) -> None:
    bench.registry.tasks[TaskId(0, 0)].drop_producer()


def handed_over(bench: Bench) -> None:
    bench.registry.close(TaskId(0, 0))


def fenced(bench: Bench) -> None:
    bench.registry.tasks[TaskId(0, 0)].on_fenced(FencedError("another"))


@pytest.mark.parametrize("happens", [failed, given_up, handed_over, fenced])
def test_plan_is_looked_at_while_a_task_is_not_what_it_says(happens: Callable[[Bench], None], walks: Walks) -> None:
    walks.of(active(0))
    walks.of(active(0))

    happens(walks.bench)

    assert walks.of(active(0)) == 1


def in_error(bench: Bench) -> None:
    with bench.registry.isolating(TaskId(0, 0)):
        raise BrokerUnreachableError("no answer")


def test_plan_is_looked_at_after_an_error_of_a_standby(walks: Walks) -> None:
    walks.of(standby(0))
    walks.of(standby(0))

    in_error(walks.bench)

    assert [walks.of(standby(0)) for _ in range(2)] == [1, 0]


def test_what_ends_in_the_middle_is_begun_with_again(walks: Walks, monkeypatch: pytest.MonkeyPatch) -> None:
    walks.of(active(0))
    walks.of(active(0))
    with monkeypatch.context() as patched:
        patched.setattr(walks.bench.registry, "open", lambda _: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            walks.of(active(0), number=2)

    assert walks.of(active(0), number=2) == 1
