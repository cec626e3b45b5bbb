from __future__ import annotations

import pytest

from airflow_provider.error_decision import retry_pause_s
from airflow_provider.errors import AccessError, StateError, StoreCorruptedError
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from airflow_provider.streaming.worker.tasks.task_memory import FailedTasks
from tests.unit.streaming.worker.bench import active, standby

ERROR = StoreCorruptedError("bad")


@pytest.mark.parametrize(
    ("plan", "later", "reason"),
    [
        pytest.param(active(0, has_standbys=True), active(0, has_standbys=True), ERROR, id="a-standby-is-to-take-over"),
        pytest.param(active(0), active(0, has_standbys=True), None, id="there-was-no-standby"),
        pytest.param(active(0, has_standbys=True), active(0), None, id="the-standby-is-gone"),
        pytest.param(active(0, has_standbys=True), active(0, 2, has_standbys=True), None, id="newer-generation"),
        pytest.param(active(0, has_standbys=True), active(1, has_standbys=True), None, id="another-task"),
        pytest.param(standby(0, has_standbys=True), standby(0, has_standbys=True), None, id="a-standby's"),
    ],
)
def test_owner_without_a_store_waits_while_a_standby_is_to_take_over(
    plan: TaskPlan, later: TaskPlan, reason: Exception | None
) -> None:
    failed = FailedTasks()

    failed.note_lost(plan, ERROR)

    closed = failed.closed(later)
    assert (None if closed is None else closed.error) is reason


def test_newer_generation_forgets_the_loss_for_good() -> None:
    failed, plan = FailedTasks(), active(0, has_standbys=True)
    failed.note_lost(plan, ERROR)

    assert failed.closed(active(0, 2, has_standbys=True)) is None

    assert failed.closed(plan) is None


@pytest.mark.parametrize(
    ("later", "stays"),
    [
        pytest.param(active(0), True, id="the-same"),
        pytest.param(active(0, 2), False, id="newer-generation"),
        pytest.param(active(0, replay="r"), False, id="a-replay"),
        pytest.param(standby(0), False, id="another-role"),
    ],
)
def test_task_that_could_not_be_opened_stays_closed(later: TaskPlan, stays: bool) -> None:
    failed = FailedTasks()

    failed.note_refused(active(0), ERROR)

    closed = failed.closed(later)
    assert (closed is not None) is stays
    assert closed is None or not closed.lost


def test_task_that_is_tried_again_is_closed_no_longer() -> None:
    now = [0.0]
    failed, plan = FailedTasks(lambda: now[0]), active(0, has_standbys=True)
    failed.note_lost(plan, StateError("no space"))
    assert not failed.take(plan)
    now[0] = 1e6

    assert failed.take(plan)

    assert failed.closed(plan) is None
    assert not failed.take(plan)


def test_another_cause_is_not_made_to_wait_for_what_the_one_before_has_used_up() -> None:
    now, plan = [0.0], standby(0)
    failed = FailedTasks(lambda: now[0])
    for _ in range(10):
        failed.note(plan, StateError("the disk is full"))
        now[0] += 0.5

    failed.note(plan, AccessError("may not read"))

    now[0] += retry_pause_s("AccessError", 1) or 0.0
    assert failed.take(plan)
