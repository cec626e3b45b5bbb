from __future__ import annotations

import pytest

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.failover import Action, FailoverPlan, decide
from airflow_provider.control.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.status import InstanceState, InstanceStatus
from tests.builders import APPLICATION, active, assigned, instance, placed, standby

GONE = instance("a", active(0), standby(1), state=InstanceState.ENDED)


def gone(*tasks: int, instance: str = "a", incarnation: int = 1) -> Incident:
    return Incident(APPLICATION, IncidentKind.INSTANCE_ENDED, instance, incarnation, tasks, "killed by signal 9")


def failed(task: int, error_kind: str) -> Incident:
    return Incident(APPLICATION, IncidentKind.TASK_FAILED, "a", 1, (task,), "task failed", error_kind)


def plan(incident: Incident, assignment: Assignment, *statuses: InstanceStatus, replicas: int = 1) -> FailoverPlan:
    by_name = {status.instance: status for status in statuses}
    healthy = [status.instance for status in statuses if status.state.alive]
    return decide(incident, assignment, by_name, healthy, replicas)


def published(of: FailoverPlan) -> Assignment:
    assert of.assignment is not None
    return of.assignment


def test_warm_standby_is_promoted() -> None:
    answer = plan(gone(0), assigned("a b", "b a"), GONE, instance("b", active(1), standby(0)))

    assert [(d.action, d.to) for d in answer.decisions] == [(Action.PROMOTE, "b")]
    assert placed(published(answer)) == ["b", "b"]
    assert published(answer).generation == 2


def test_most_caught_up_standby_is_promoted() -> None:
    answer = plan(
        gone(0),
        assigned("a b c"),
        GONE,
        instance("b", standby(0, lag_records=50)),
        instance("c", standby(0, lag_records=3)),
    )

    assert answer.decisions[0].to == "c"
    assert "b: lag 50" in answer.decisions[0].evidence
    assert placed(published(answer)) == ["c b"]


def test_certified_one_of_equal_standbys_is_promoted() -> None:
    answer = plan(
        gone(0),
        assigned("a b c"),
        GONE,
        instance("b", standby(0)),
        instance("c", standby(0, certified_position=10)),
    )

    assert answer.decisions[0].to == "c"
    assert "c: lag 0, certified" in answer.decisions[0].evidence


def test_lag_counts_before_certification() -> None:
    answer = plan(
        gone(0),
        assigned("a b c"),
        GONE,
        instance("b", standby(0)),
        instance("c", standby(0, lag_records=1, certified_position=9)),
    )

    assert answer.decisions[0].to == "b"


def test_known_lag_is_preferred_to_an_unknown_one() -> None:
    answer = plan(
        gone(0),
        assigned("a b c"),
        GONE,
        instance("b", standby(0, lag_records=None)),
        instance("c", standby(0, lag_records=900)),
    )

    assert answer.decisions[0].to == "c"


def test_equal_standbys_share_the_tasks() -> None:
    assignment = assigned("a b c", "a b c", "a b c", "a b c")
    copies = [standby(task) for task in range(4)]

    answer = plan(gone(0, 1, 2, 3), assignment, GONE, instance("b", *copies), instance("c", *copies))

    assert sorted(str(d.to) for d in answer.decisions) == ["b", "b", "c", "c"]


def test_changelog_is_replayed_where_no_copy_is_left() -> None:
    answer = plan(gone(0), assigned("a", "b"), GONE, instance("b", active(1)))

    assert [(d.action, d.to) for d in answer.decisions] == [(Action.REPLAY, "b")]
    assert "b: no copy" in answer.decisions[0].evidence


def test_assigned_standby_without_a_store_yet_is_preferred_for_a_replay() -> None:
    answer = plan(gone(0), assigned("a c", "b"), GONE, instance("b"), instance("c"))

    assert [(d.action, d.to) for d in answer.decisions] == [(Action.REPLAY, "c")]


def test_task_waits_when_nobody_lives() -> None:
    answer = plan(gone(0), assigned("a b"), GONE, instance("b", state=InstanceState.ENDED))

    assert [d.action for d in answer.decisions] == [Action.WAIT]
    assert published(answer).tasks[0].active is None


def test_generation_that_answers_does_not_name_the_instance_that_is_gone() -> None:
    answer = plan(gone(0), assigned("a b", "b a"), GONE, instance("b", active(1), standby(0)), instance("c"))

    assert "a" not in published(answer).instances
    assert placed(published(answer)) == ["b c", "b c"]


def test_incident_that_is_answered_needs_no_answer() -> None:
    assert plan(gone(0), assigned("b", "b"), GONE, instance("b")) == FailoverPlan((), None)


def test_incident_of_a_process_that_was_replaced_needs_no_answer() -> None:
    restarted = instance("a", active(0), incarnation=2)

    assert plan(gone(0), assigned("a b"), restarted, instance("b", standby(0))) == FailoverPlan((), None)


def test_warm_standby_does_not_wait_for_a_replacement_that_starts() -> None:
    starting = instance("a", state=InstanceState.STARTING, incarnation=2)

    answer = plan(gone(0), assigned("a b"), starting, instance("b", standby(0)))

    assert answer.decisions[0].to == "b"


@pytest.mark.parametrize("kind", ["DecodeError", "ProcessError", "ConfigurationError", "TopicMismatchError"])
def test_task_that_would_fail_anywhere_is_held(kind: str) -> None:
    answer = plan(failed(0, kind), assigned("a b"), instance("a"), instance("b", standby(0)))

    assert [d.action for d in answer.decisions] == [Action.HOLD]
    assert answer.assignment is None


def test_task_that_failed_by_its_place_moves_and_leaves_the_others() -> None:
    here, there = instance("a", active(0), active(1)), instance("b", standby(0), standby(1))

    answer = plan(failed(0, "StoreCorruptedError"), assigned("a b", "a b"), here, there)

    assert placed(published(answer)) == ["b a", "a b"]


def test_task_that_fails_everywhere_passes_each_instance_once() -> None:
    assignment, answered, visited = assigned("a b c"), dict[str, IncidentRecord](), ["a"]
    for _ in range(5):
        here = visited[-1]
        others = [instance(name, standby(0)) for name in "abc" if name != here]
        incident = Incident(
            APPLICATION,
            IncidentKind.TASK_FAILED,
            here,
            1,
            (0,),
            "task 0 failed: out of room",
            "StateError",
            assignment.tasks[0].active_since,
            assignment.generation,
            committed=here == "a" and len(visited) == 1,
        )
        statuses = {status.instance: status for status in [*others, instance(here)]}
        answer = decide(incident, assignment, statuses, list("abc"), answered=answered)
        (decision,) = answer.decisions
        generation = (answer.assignment or assignment).generation
        answered[incident.id] = IncidentRecord(incident, "run", None, 1, generation)
        if decision.action is Action.HOLD:
            break
        assignment = published(answer)
        visited.append(str(decision.to))

    assert sorted(visited) == ["a", "b", "c"]
    assert decision.action is Action.HOLD
    assert answer.assignment is None
    assert "failed on a, b, c, and nobody else is there" in decision.evidence


def test_task_that_committed_since_may_come_back() -> None:
    before = Incident(APPLICATION, IncidentKind.TASK_FAILED, "a", 1, (0,), "failed", "StateError", 1, 1, committed=True)
    now = Incident(APPLICATION, IncidentKind.TASK_FAILED, "b", 1, (0,), "failed", "StateError", 2, 2, committed=True)
    statuses = {"a": instance("a", standby(0)), "b": instance("b", active(0))}

    answer = decide(
        now,
        assigned("b a", generation=2),
        statuses,
        ["a", "b"],
        answered={before.id: IncidentRecord(before, "run", None, 1, 2)},
    )

    assert [(d.action, d.to) for d in answer.decisions] == [(Action.PROMOTE, "a")]


def test_standby_in_trouble_is_the_last_choice() -> None:
    answer = plan(
        gone(0),
        assigned("a b c"),
        GONE,
        instance("b", standby(0, error="no room")),
        instance("c", standby(0, lag_records=500)),
    )

    assert answer.decisions[0].to == "c"
    assert "b: lag 0, in trouble" in answer.decisions[0].evidence


def test_tasks_that_stay_keep_the_generation_in_which_they_were_given() -> None:
    answer = plan(gone(0), assigned("a b", "b a"), GONE, instance("b", active(1), standby(0)))

    assert [task.active_since for task in published(answer).tasks] == [2, 1]
