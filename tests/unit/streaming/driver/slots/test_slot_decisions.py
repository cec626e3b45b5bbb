from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from airflow_provider.common.task_id import TaskId, tasks_of
from airflow_provider.control.placement.assignor import assign
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import RestorePhase, TaskState, TaskStatus
from airflow_provider.streaming.driver.instance_controller import task_plans
from airflow_provider.streaming.driver.slots.slot_decisions import (
    Brought,
    SlotGoal,
    SlotState,
    choose_slots,
    is_settling,
    next_state,
    query_must_end,
    round_budget_s,
    round_is_due,
    round_pause_s,
    tasks_that_go_on,
    tasks_to_query,
    wait_s,
    with_overlap,
)
from airflow_provider.streaming.driver.slots.slot_report import SlotReport
from tests.builders import APPLICATION, assigned, task_id
from tests.unit.streaming.driver.fakes import STANDBY, plan, status_of

WORKING = (SlotState.STEADY, SlotState.SETTLING, SlotState.BACKING_OFF)
RUNNING, RESTORING, FOLLOWING = TaskState.RUNNING, TaskState.RESTORING, TaskState.FOLLOWING
CHANGELOG = RestorePhase.CHANGELOG


STANDING_BY = status_of(0, FOLLOWING, STANDBY, lag_records=0)


@pytest.mark.parametrize("before", WORKING)
@pytest.mark.parametrize("after", [*WORKING, SlotState.STOPPING])
def test_slot_that_works_may_become_anything_but_stopped(before: SlotState, after: SlotState) -> None:
    assert before.transition(after) is after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *((before, SlotState.STOPPED) for before in WORKING),
        *((SlotState.STOPPING, after) for after in WORKING),
        *((SlotState.STOPPED, after) for after in SlotState if after is not SlotState.STOPPED),
    ],
)
def test_slot_that_stops_works_no_more(before: SlotState, after: SlotState) -> None:
    with pytest.raises(RuntimeError, match=f"{before.value} cannot become {after.value}"):
        before.transition(after)


def test_slot_that_is_stopping_stops() -> None:
    assert SlotState.STOPPING.transition(SlotState.STOPPED) is SlotState.STOPPED


def slots_of(
    assignment: Assignment, slots: int, name: str = "a", before: Mapping[TaskId, int] | None = None
) -> dict[TaskId, int]:
    return choose_slots(task_plans(assignment, name, {}), assignment, before or {}, slots)


def actives_by_slot(assignment: Assignment, chosen: Mapping[TaskId, int], slots: int, name: str = "a") -> list[int]:
    loads = Counter(chosen[task] for task in assignment.active_on(name))
    return [loads[slot] for slot in range(slots)]


@pytest.mark.parametrize(("instances", "slots", "tasks"), [(2, 2, 8), (2, 2, 32), (3, 3, 9), (2, 4, 16), (2, 2, 2)])
def test_active_tasks_of_an_instance_use_all_of_its_slots(instances: int, slots: int, tasks: int) -> None:
    names = [f"i{number}" for number in range(instances)]
    empty = Assignment.empty(APPLICATION, tasks_of({0: tasks}))
    first = empty.next(assign(empty, names, 1), "first", carried_out=0)

    for name in names:
        loads = actives_by_slot(first, slots_of(first, slots, name), slots, name)
        assert max(loads) - min(loads) <= 1, loads


def test_tasks_of_all_stages_are_spread_over_the_slots() -> None:
    tasks = {TaskId(stage, number): TaskAssignment("a") for stage in (0, 1) for number in range(2)}
    assignment = Assignment(application_id="app", generation=1, tasks=tasks)

    assert actives_by_slot(assignment, slots_of(assignment, 2), 2) == [2, 2]


def test_task_stays_in_its_slot_while_the_instance_holds_it() -> None:
    before = slots_of(assigned("a b", "a b", "b a", "b a"), 2)

    promoted = slots_of(assigned("a", "b", "a", "a", "a"), 2, before=before)

    assert {task: promoted[task] for task in before if task in promoted} == {
        task: slot for task, slot in before.items() if task != TaskId(0, 1)
    }


def test_nothing_changes_where_nothing_changed() -> None:
    assignment = assigned("a b", "b a", "a b", "b a", "a b")
    before = slots_of(assignment, 3)

    assert slots_of(assignment, 3, before=before) == before


def test_standbys_of_one_owner_are_spread_so_that_its_loss_is() -> None:
    assignment = assigned("b a", "c a", "b a", "c a")
    before = slots_of(assignment, 2)

    after = assigned("a", "c a", "a", "c a")

    assert actives_by_slot(after, slots_of(after, 2, before=before), 2) == [1, 1]


def test_task_that_became_active_last_moves_when_a_slot_would_idle() -> None:
    before = {TaskId(0, 0): 0, TaskId(0, 1): 0, TaskId(0, 2): 1}
    tasks = {
        TaskId(0, 0): TaskAssignment("a", (), 5),
        TaskId(0, 1): TaskAssignment("a", (), 3),
        TaskId(0, 2): TaskAssignment("b", ("a",), 5),
    }
    assignment = Assignment(application_id="app", generation=5, tasks=tasks)

    assert slots_of(assignment, 2, before=before) == {TaskId(0, 0): 1, TaskId(0, 1): 0, TaskId(0, 2): 1}


@pytest.mark.parametrize("seed", range(50))
def test_slots_stay_even_over_random_assignments_and_move_no_task_needlessly(seed: int) -> None:
    rng = random.Random(seed)
    slots, before = rng.randint(1, 5), dict[TaskId, int]()
    for generation in range(1, 8):
        tasks = {
            task: TaskAssignment(*rng.choice([("a", ("b",)), ("b", ("a",)), ("b", ()), ("c", ("a",))]), generation)
            for task in tasks_of({0: rng.randint(1, 12)})
        }
        assignment = Assignment(application_id="app", generation=generation, tasks=tasks)

        chosen = slots_of(assignment, slots, before=before)

        loads = actives_by_slot(assignment, chosen, slots)
        assert max(loads) - min(loads) <= 1, f"seed {seed}: {loads}"
        assert chosen.keys() == {*assignment.active_on("a"), *assignment.standby_on("a")}
        for task in assignment.standby_on("a"):
            assert chosen[task] == before.get(task, chosen[task]), f"seed {seed}"
        before = chosen


def report_of(*statuses: TaskStatus) -> SlotReport:
    return SlotReport({status.task: status for status in statuses})


@pytest.mark.parametrize(
    ("statuses", "settling"),
    [
        pytest.param([], False, id="no-task"),
        pytest.param([status_of(0, RUNNING)], False, id="running"),
        pytest.param([status_of(0, RUNNING), status_of(1, TaskState.OWNING)], True, id="one-is-being-owned"),
        pytest.param([status_of(0, RUNNING), status_of(1, RESTORING)], True, id="one-is-restored"),
        pytest.param([status_of(0, FOLLOWING, STANDBY)], False, id="a-warm-standby"),
        pytest.param([status_of(0, FOLLOWING, STANDBY, restore_phase=CHANGELOG)], True, id="a-cold-standby-alone"),
        pytest.param(
            [status_of(0, RUNNING), status_of(1, FOLLOWING, STANDBY, restore_phase=CHANGELOG)],
            False,
            id="a-cold-standby-beside-an-active",
        ),
        pytest.param([status_of(0, TaskState.OWNING, error="no topic")], False, id="one-that-is-to-be-tried-again"),
        pytest.param([status_of(0, RESTORING, error="no topic")], False, id="one-whose-restore-is-to-be-tried-again"),
        pytest.param(
            [status_of(0, FOLLOWING, STANDBY, restore_phase=CHANGELOG, error="no topic")],
            False,
            id="a-cold-standby-that-is-to-be-tried-again",
        ),
        pytest.param(
            [status_of(0, TaskState.OWNING, error="no topic"), status_of(1, RESTORING)], True, id="another-is-well"
        ),
    ],
)
def test_slot_settles_while_a_task_is_on_its_way(statuses: list[TaskStatus], settling: bool) -> None:
    assert is_settling(statuses) is settling


@pytest.mark.parametrize(
    ("goal", "statuses", "retry_at", "state"),
    [
        pytest.param(SlotGoal(), [], 0.0, SlotState.STEADY, id="nothing-to-do"),
        pytest.param(SlotGoal(), [status_of(0, RESTORING)], 0.0, SlotState.SETTLING, id="on-its-way"),
        pytest.param(SlotGoal(), [status_of(0, RESTORING)], 101.0, SlotState.BACKING_OFF, id="failed-just-now"),
        pytest.param(SlotGoal(), [], 100.0, SlotState.STEADY, id="may-try-again"),
        pytest.param(SlotGoal(stopping=True), [], 101.0, SlotState.STOPPING, id="stopping-comes-first"),
    ],
)
def test_state_follows_from_goal_report_and_time(
    goal: SlotGoal, statuses: list[TaskStatus], retry_at: float, state: SlotState
) -> None:
    assert next_state(goal, report_of(*statuses), 100.0, retry_at) is state


@pytest.mark.parametrize(
    ("state", "woken", "idle_s", "due"),
    [
        pytest.param(SlotState.STEADY, False, 0.4, False, id="called-not-long-ago"),
        pytest.param(SlotState.STEADY, False, 0.5, True, id="left-alone-for-an-interval"),
        pytest.param(SlotState.STEADY, True, 0.0, True, id="the-goal-changed"),
        pytest.param(SlotState.SETTLING, False, 0.0, True, id="settling"),
        pytest.param(SlotState.BACKING_OFF, True, 9.0, False, id="backing-off"),
        pytest.param(SlotState.STOPPING, True, 9.0, False, id="the-last-round-is-another-step"),
    ],
)
def test_round_is_due(state: SlotState, woken: bool, idle_s: float, due: bool) -> None:
    assert round_is_due(state, SlotReport({}, 100.0), woken, 0.5, 100.0 + idle_s, 0.0) is due


@pytest.mark.parametrize(
    ("tasks", "calm", "interval_s", "seconds"),
    [
        pytest.param([STANDING_BY], 0, 0.5, 0.5, id="something-happened"),
        pytest.param([STANDING_BY], 1, 0.5, 1.0, id="nothing-happened"),
        pytest.param([STANDING_BY], 9, 0.5, 2.0, id="nothing-happens-for-long"),
        pytest.param([STANDING_BY], 100_000, 0.5, 2.0, id="nothing-happens-for-days"),
        pytest.param([STANDING_BY], 9, 7.0, 7.0, id="rare-as-asked-for"),
        pytest.param([status_of(1), STANDING_BY], 9, 0.5, 2.0, id="a-standby-beside-an-active"),
        pytest.param([status_of(1)], 1, 0.5, 1.0, id="actives-alone"),
        pytest.param([status_of(1)], 9, 0.5, 5.0, id="actives-alone-for-long"),
        pytest.param([], 9, 0.5, 5.0, id="no-task"),
    ],
)
def test_rounds_become_rare_where_nothing_happens(
    tasks: list[TaskStatus], calm: int, interval_s: float, seconds: float
) -> None:
    report = SlotReport({status.task: status for status in tasks}, 100.0, calm)
    assert round_pause_s(report, interval_s) == seconds
    assert round_is_due(SlotState.STEADY, report, False, interval_s, 100.0 + seconds, 0.0)
    assert not round_is_due(SlotState.STEADY, report, False, interval_s, 99.9 + seconds, 0.0)
    assert round_is_due(SlotState.STEADY, report, True, interval_s, 100.0, 0.0)


def test_pause_that_is_over_puts_a_round_off_no_longer() -> None:
    calm = SlotReport({TaskId(0, 1): status_of(1)}, 100.0, 9)
    assert round_is_due(SlotState.STEADY, calm, False, 0.5, 101.0, 101.0), "a query ended, and is to be begun again"
    assert not round_is_due(SlotState.STEADY, calm, False, 0.5, 101.0, 99.0), "the round after that was made"


@pytest.mark.parametrize(
    ("offsets", "earliest", "begin"),
    [
        pytest.param([7, 9], [0, 0], [6, 9], id="one-record-is-read-again"),
        pytest.param([None, 9], [0, 0], [None, 8], id="of-a-task-that-has-processed-some"),
        pytest.param([7, 9], [7, 8], [7, 8], id="of-a-log-that-still-has-it"),
        pytest.param([7, None], [7, 0], [7, None], id="none-is-left"),
        pytest.param([0, None], [0, 0], [0, None], id="none-was-read"),
    ],
)
def test_query_begins_one_record_early(offsets: list[int | None], earliest: list[int], begin: list[int | None]) -> None:
    asked = {TaskId(0, n): offset for n, offset in enumerate(offsets)}
    found = with_overlap(asked, dict(enumerate(earliest)), dict.fromkeys(range(len(earliest)), 1_000))

    assert found == {TaskId(0, n): offset for n, offset in enumerate(begin)}


def test_query_begins_where_it_is_asked_to_where_the_log_is_not_known() -> None:
    assert with_overlap({TaskId(0, 0): 7}, {}, {}) == {TaskId(0, 0): 7}


def test_query_begins_where_its_task_stands_where_the_logs_end_has_fallen_back_behind_that() -> None:
    assert with_overlap({TaskId(0, 0): 7}, {0: 0}, {0: 6}) == {TaskId(0, 0): 7}
    assert with_overlap({TaskId(0, 0): 7}, {0: 0}, {0: 7}) == {TaskId(0, 0): 6}


@pytest.mark.parametrize(
    ("statuses", "retry_at", "seconds"),
    [
        pytest.param([], 0.0, 0.25, id="half-an-interval"),
        pytest.param([status_of(0, RESTORING)], 0.0, 0.0, id="settling"),
        pytest.param([status_of(0, RESTORING, error="no topic")], 0.0, 0.25, id="to-be-tried-again"),
        pytest.param([status_of(0, RESTORING)], 100.8, 0.8, id="backing-off"),
    ],
)
def test_thread_sleeps_no_longer_than_it_may(statuses: list[TaskStatus], retry_at: float, seconds: float) -> None:
    assert wait_s(report_of(*statuses), 0.5, 100.0, retry_at) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("statuses", "seconds"),
    [
        pytest.param([], 0.25, id="no-task"),
        pytest.param([status_of(0, FOLLOWING, STANDBY, restore_phase=CHANGELOG, lag_records=500_001)], 1.0, id="far"),
        pytest.param([status_of(0, FOLLOWING, STANDBY, restore_phase=CHANGELOG, lag_records=500_000)], 0.25, id="near"),
        pytest.param([status_of(0, FOLLOWING, STANDBY, lag_records=500_001)], 0.25, id="not-restoring"),
        pytest.param(
            [status_of(0, FOLLOWING, STANDBY, restore_phase=CHANGELOG, lag_records=500_001), status_of(1)],
            0.25,
            id="one-of-them-runs",
        ),
    ],
)
def test_round_is_longer_where_all_of_the_slot_has_far_to_go(statuses: list[TaskStatus], seconds: float) -> None:
    assert round_budget_s(statuses) == seconds


GOAL = SlotGoal((plan(0), plan(1), plan(2, STANDBY)))


@pytest.mark.parametrize(
    ("tasks", "goal", "ends"),
    [
        pytest.param({0, 1}, GOAL, False, id="all-of-it-is-processed-here"),
        pytest.param({0}, GOAL, False, id="another-query-has-the-rest"),
        pytest.param(set(), GOAL, True, id="no-task-left"),
        pytest.param({0, 2}, GOAL, False, id="one-is-a-standby-now"),
        pytest.param({0, 3}, GOAL, False, id="one-is-elsewhere"),
        pytest.param({2, 3}, GOAL, True, id="none-is-processed-here"),
        pytest.param({0, 1}, SlotGoal((plan(0), plan(1, generation=3))), True, id="one-came-back"),
        pytest.param({0}, SlotGoal((plan(0),), stopping=True), True, id="stopping"),
    ],
)
def test_query_ends_with_its_last_task_or_with_one_that_came_back(tasks: set[int], goal: SlotGoal, ends: bool) -> None:
    brought = dict.fromkeys(map(task_id, range(3)), Brought(1, 7))

    assert query_must_end(set(map(task_id, tasks)), goal, brought, SlotReport()) is ends


@pytest.mark.parametrize(
    ("status", "ends"),
    [
        pytest.param(status_of(1, source_offset=7), False, id="it-stands-where-it-was-brought"),
        pytest.param(status_of(1, source_offset=9), False, id="it-was-brought-further-since"),
        pytest.param(status_of(1, source_offset=6), True, id="it-stands-before"),
        pytest.param(status_of(1), True, id="it-is-empty"),
        pytest.param(status_of(1, TaskState.RESTORING, source_offset=6), False, id="it-is-restored-still"),
        pytest.param(status_of(3, source_offset=6), False, id="it-is-not-of-the-query"),
    ],
)
def test_query_ends_where_a_store_stands_before_what_it_has_brought(status: TaskStatus, ends: bool) -> None:
    brought = {task_id(0): Brought(1, None), task_id(1): Brought(1, 7)}

    assert query_must_end(brought.keys(), GOAL, brought, report_of(status)) is ends


def test_query_is_wanted_for_tasks_that_run_and_that_none_reads() -> None:
    report = report_of(
        status_of(0, source_offset=7),
        status_of(1),
        status_of(2, FOLLOWING, STANDBY),
        status_of(3, RESTORING),
        status_of(4, source_offset=9),
        status_of(5, generation=1),
    )
    goal = SlotGoal((plan(0), plan(1), plan(2, STANDBY), plan(3), plan(4), plan(5, generation=2), plan(6)))

    assert tasks_to_query(goal, report, queried={TaskId(0, 4)}) == [{TaskId(0, 0): 7, TaskId(0, 1): None}]


def test_no_query_is_wanted_while_stopping() -> None:
    assert tasks_to_query(SlotGoal((plan(0),), stopping=True), report_of(status_of(0)), queried=()) == []


def brought(*partitions: int) -> dict[TaskId, Brought]:
    return {TaskId(0, partition): Brought(1, None) for partition in partitions}


def test_task_whose_rows_were_not_processed_does_not_go_on() -> None:
    report = report_of(status_of(0), status_of(1, RESTORING), status_of(2, FOLLOWING, STANDBY), status_of(3))

    assert tasks_that_go_on(brought(0, 1, 2), GOAL, report) == brought(0)


def test_task_that_was_given_away_does_not_go_on() -> None:
    assert tasks_that_go_on(brought(0, 3), GOAL, report_of(status_of(0), status_of(3))) == brought(0)


@pytest.mark.parametrize("stands", [None, 4])
def test_task_that_went_back_does_not_go_on(stands: int | None) -> None:
    """Its changelog has lost its newest commits, and its store was restored since."""
    report = report_of(status_of(0, source_offset=stands), status_of(1, source_offset=5))
    before = {TaskId(0, 0): Brought(1, 5), TaskId(0, 1): Brought(1, 4)}

    assert tasks_that_go_on(before, GOAL, report) == {TaskId(0, 1): Brought(1, 5)}


def test_each_stage_has_a_query_of_its_own() -> None:
    tasks = (TaskId(1, 0), TaskId(0, 0), TaskId(0, 1))
    report = report_of(*(status_of(task, source_offset=task.stage) for task in tasks))
    goal = SlotGoal(tuple(map(plan, tasks)))

    assert tasks_to_query(goal, report, queried=()) == [{TaskId(0, 0): 0, TaskId(0, 1): 0}, {TaskId(1, 0): 1}]
