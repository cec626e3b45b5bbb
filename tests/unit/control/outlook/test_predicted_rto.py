from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.predicted_rto import PredictedRto, measured_rto_ms, predict_rto, worst_rto_ms
from airflow_provider.control.outlook.slo import Slo, missed_promises
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.history import HistoryKind, HistoryRecord, RtoParts
from airflow_provider.control.records.incident import Action
from airflow_provider.control.records.status import DiskStatus, InstanceState, InstanceStatus, RestorePhase
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from tests.builders import active, assigned, instance, standby, view_of
from tests.unit.control.outlook.test_rto_basis import failover, restored

FIXED_MS = 10 + 2_000 + 300 + 1_000
HISTORY = [failover(), restored("b"), restored("c", took_s=1.0)]
FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)


def predicted(
    assignment: Assignment, *statuses: InstanceStatus, history: list[HistoryRecord] | None = None
) -> PredictedRto:
    view = view_of(assignment, *statuses)
    found = predict_rto(view, HISTORY if history is None else history, view.healthy(Timeouts()))
    return found[TaskId(0, 0)]


A = instance("a", active(0, end=500_000))


def test_warm_standby_costs_its_lag_at_the_rate_of_its_instance() -> None:
    found = predicted(assigned("a b"), A, instance("b", standby(0, lag_records=5_000)))

    assert (found.to, found.warm, found.records, found.restore_ms) == ("b", True, 5_000, 500)
    assert found.total_ms == FIXED_MS + 500
    assert str(found) == (
        "task 0_0 from a to b, a warm standby: 3.8 s (detected 0.0 s, decided 2.0 s, owned 0.3 s, restored 0.5 s, "
        "first output 1.0 s; 5,000 records at 10,000/s; p90 of 1 failover(s))"
    )


def test_best_standby_is_meant_as_in_a_failover() -> None:
    statuses = instance("b", standby(0, lag_records=900)), instance("c", standby(0, lag_records=100))

    assert predicted(assigned("a b c"), A, *statuses).to == "c"


def test_copy_that_is_still_restored_costs_what_is_left() -> None:
    cold = standby(0, lag_records=20_000, restore_phase=RestorePhase.CHANGELOG)

    found = predicted(assigned("a b"), A, instance("b", cold))

    assert (found.warm, found.restore_ms) == (False, 2_000)


def test_task_without_a_copy_costs_the_whole_changelog() -> None:
    found = predicted(assigned("a b"), A, instance("b"))

    assert (found.to, found.warm, found.records, found.restore_ms) == ("b", False, 500_000, 50_000)


def test_changelog_that_was_compacted_costs_what_the_store_holds() -> None:
    a = dataclasses.replace(instance("a", active(0, end=500_000_000), active(1)), disk=DiskStatus("/s", 4_000_000))

    # Half of 4 MB at 100 kB/s.
    assert predicted(assigned("a b", "a b"), a, instance("b")).restore_ms == 20_000


STARTS = instance("b", state=InstanceState.STARTING)


@pytest.mark.parametrize("others", [(), (STARTS,)], ids=["none", "one-that-starts"])
def test_where_no_other_instance_runs_a_failure_costs_a_start(others: tuple[InstanceStatus, ...]) -> None:
    restarted = failover(actions=(Action.KEEP, Action.REPLAY), owned_ms=18_000)

    found = predicted(assigned("a b"), A, *others, history=[failover(), restarted, failover()])

    assert (found.to, found.total_ms) == (None, 10 + 2_000 + 18_000 + 1_000)
    assert str(found) == (
        "task 0_0: no other instance runs that could take it over from a: until that is started again and goes on, "
        "21.0 s (p90 of 1 failover(s))"
    )


def test_takeover_whose_next_owner_was_gone_too_is_not_what_a_standby_takes() -> None:
    twice = dataclasses.replace(failover(owned_ms=53_800), by_later_answer=True)

    found = predicted(assigned("a b"), A, instance("b", standby(0)), history=[failover(), twice])
    alone = predicted(assigned("a"), A, history=[failover(), twice])

    assert (found.total_ms, alone.total_ms) == (FIXED_MS, 10 + 2_000 + 53_800 + 1_000)


def test_start_that_measured_nothing_foretells_nothing() -> None:
    open_one = dataclasses.replace(failover(actions=(Action.WAIT,)), rto=RtoParts(detected_ms=100, decided_ms=500))

    assert predicted(assigned("a b"), A, history=[open_one]).total_ms is None


def test_store_in_memory_is_restored_after_a_start() -> None:
    restarted = [failover(actions=(Action.KEEP,)), restored("c", took_s=1.0)]
    a = instance("a", active(0, end=500_000, store_kind="memory"))

    assert (predicted(assigned("a"), a, history=restarted).restore_ms or 0) > 1_000


def test_where_no_start_is_on_record_its_time_is_not_known() -> None:
    found = predicted(assigned("a b"), A)

    assert (found.to, found.total_ms, found.measured) == (None, None, False)
    assert str(found) == (
        "task 0_0: no other instance runs that could take it over from a, and how long a start takes is not known yet"
    )


@pytest.mark.parametrize("action", [Action.KEEP, Action.WAIT, Action.HOLD, Action.REPLAY])
def test_takeover_by_an_instance_that_runs_is_not_foretold_by_what_waited(action: Action) -> None:
    waited = failover(actions=(action,), owned_ms=300_000)

    found = predicted(assigned("a b"), A, instance("b", standby(0)), history=[failover(), waited])

    assert (found.total_ms, found.measured) == (FIXED_MS, True)


def test_changelog_of_unknown_length_has_no_prediction() -> None:
    found = predicted(assigned("a b"), instance("a", active(0)), instance("b"))

    assert (found.to, found.total_ms) == ("b", None)
    assert "an unknown number of records" in str(found)


def test_without_history_there_are_defaults_and_they_are_called_so() -> None:
    found = predicted(assigned("a b"), A, instance("b", standby(0, lag_records=50_000)), history=[])

    assert found.total_ms == 5_000 + 3_000 + 500 + 1_000 + 500
    assert "at 100,000/s by default; by default, no failover is on record" in str(found)


def test_task_without_an_active_and_application_without_an_assignment_have_none() -> None:
    assert predict_rto(view_of(assigned("- b"), instance("b")), [], ["b"]) == {}
    assert predict_rto(view_of(None), [], []) == {}


def test_last_task_counts_and_one_that_is_not_known_leaves_it_open() -> None:
    near = predicted(assigned("a b"), A, instance("b", standby(0)))
    far = predicted(assigned("a b"), A, instance("b"))
    unknown = predicted(assigned("a b"), A)

    assert worst_rto_ms([near, far]) == far.total_ms
    assert worst_rto_ms([near, unknown]) is None
    assert worst_rto_ms([]) is None


@pytest.mark.parametrize(
    ("history", "rto_s", "missed"),
    [
        pytest.param(HISTORY, 3.0, True, id="beyond"),
        pytest.param(HISTORY, 4.0, False, id="within"),
        pytest.param(HISTORY, None, False, id="nothing-promised"),
        pytest.param([], 3.0, False, id="by-defaults-alone"),
    ],
)
def test_prediction_beyond_the_slo_is_a_missed_promise(
    history: list[HistoryRecord], rto_s: float | None, missed: bool
) -> None:
    view: ControlView = view_of(assigned("a b"), A, instance("b", standby(0)))
    found = predict_rto(view, history, ["a", "b"]).values()

    lines = missed_promises(view, Slo(rto_s=rto_s), 1, {"a": 0.0, "b": 0.0}, Timeouts(), found)

    assert [line.startswith("a failure now would take longer than the 3 s") for line in lines] == [True] * missed


def test_newest_failover_that_was_measured_counts_for_each_of_its_tasks() -> None:
    both = dataclasses.replace(failover(), tasks=(FIRST, SECOND))
    later = dataclasses.replace(both, tasks=(FIRST,), rto=RtoParts(total_ms=900))
    unmeasured = dataclasses.replace(both, rto=RtoParts(detected_ms=5))
    upgrade = dataclasses.replace(both, kind=HistoryKind.UPGRADE, rto=RtoParts(total_ms=1))

    assert measured_rto_ms([both, later, unmeasured, upgrade]) == {FIRST: 900, SECOND: 3_310}


def test_nothing_is_measured_before_the_first_failover() -> None:
    assert measured_rto_ms([]) == {}
