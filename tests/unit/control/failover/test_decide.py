from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.decide import FailoverPlan, decide
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_answer import is_due
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import Action, Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import InstanceState, InstanceStatus, RestorePhase, TaskState
from airflow_provider.control.topics.liveness import Timeouts
from tests.builders import APPLICATION, active, assigned, instance, placed, standby, task_id, view_of

GONE = instance("a", active(0), standby(1), state=InstanceState.ENDED)


def gone(*tasks: int, instance: str = "a", incarnation: int = 1) -> Incident:
    return Incident(
        application_id=APPLICATION,
        kind=IncidentKind.INSTANCE_ENDED,
        instance=instance,
        incarnation=incarnation,
        tasks=tuple(map(task_id, tasks)),
        evidence="killed by signal 9",
    )


def failed(task: int, error_kind: str) -> Incident:
    return Incident(
        application_id=APPLICATION,
        kind=IncidentKind.TASK_FAILED,
        instance="a",
        incarnation=1,
        tasks=(task_id(task),),
        evidence="task failed",
        error_kind=error_kind,
    )


def plan(incident: Incident, assignment: Assignment, *statuses: InstanceStatus, replicas: int = 1) -> FailoverPlan:
    by_name = {status.instance: status for status in statuses}
    healthy = [status.instance for status in statuses if status.state.alive]
    return decide(incident, assignment, by_name, healthy, replicas)


def passed_on(
    incident_on: Callable[..., Incident], status_on: Callable[[str], InstanceStatus]
) -> tuple[list[str], FailoverPlan]:
    """The instances that get task 0 one after the other, as each fails it, until it is held; and the last answer.

    Args:
        incident_on: the incident of an instance, with what the assignment says of its task.
        status_on: of the instance that has it; the others are standbys.
    """
    assignment, answered, visited = assigned("a b c"), dict[str, IncidentRecord](), ["a"]
    for _ in range(5):
        here = visited[-1]
        incident = incident_on(
            here,
            active_since=assignment.tasks[TaskId(0, 0)].active_since,
            generation=assignment.generation,
            committed=len(visited) == 1,
        )
        statuses = {name: status_on(name) if name == here else instance(name, standby(0)) for name in "abc"}
        answer = decide(incident, assignment, statuses, list("abc"), answered=answered)
        (decision,) = answer.decisions
        generation = (answer.assignment or assignment).generation
        answered[incident.id] = IncidentRecord(
            incident=incident, answered_by="run", detected_at_ms=None, decided_at_ms=1, generation=generation
        )
        if decision.action is Action.HOLD:
            break
        assignment = published(answer)
        visited.append(str(decision.to))
    return visited, answer


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
    assert published(answer).tasks[TaskId(0, 0)].active is None


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


@pytest.mark.parametrize(
    "kind", ["DecodeError", "ProcessError", "RecordError", "ConfigurationError", "TopicMismatchError"]
)
def test_task_that_would_fail_anywhere_is_held(kind: str) -> None:
    answer = plan(failed(0, kind), assigned("a b"), instance("a"), instance("b", standby(0)))

    assert [d.action for d in answer.decisions] == [Action.HOLD]
    assert answer.assignment is None


def test_task_that_failed_by_its_place_moves_and_leaves_the_others() -> None:
    here = instance("a", active(0, state=TaskState.FAILED, error="bad"), active(1))
    there = instance("b", standby(0), standby(1))

    answer = plan(failed(0, "StoreCorruptedError"), assigned("a b", "a b"), here, there)

    assert placed(published(answer)) == ["b a", "a b"]


def test_task_that_fails_everywhere_passes_each_instance_once() -> None:
    def incident_on(here: str, **more: Any) -> Incident:
        return dataclasses.replace(failed(0, "StateError"), instance=here, **more)

    visited, answer = passed_on(incident_on, instance)

    (decision,) = answer.decisions
    assert sorted(visited) == ["a", "b", "c"]
    assert decision.action is Action.HOLD
    assert answer.assignment is None
    assert "failed on a, b, c, and there is no other instance" in decision.evidence


@pytest.mark.parametrize(
    ("on_b", "on_a"),
    [
        pytest.param({"first_commit_at_ms": 7}, {}, id="as-the-owner-says"),
        pytest.param({"committed_generation": 2}, {}, id="as-its-store-says-after-a-restart"),
        pytest.param({}, {"committed_generation": 2}, id="as-the-standby-says"),
    ],
)
def test_second_loss_of_a_store_is_answered_by_the_warm_standby_when_there_was_a_commit_in_between(
    on_b: dict[str, Any], on_a: dict[str, Any]
) -> None:
    lost: dict[str, Any] = {
        "state": TaskState.FAILED,
        "error": "the store is gone",
        "error_kind": "StoreCorruptedError",
    }
    first = (instance("a", active(0, **lost)), instance("b", standby(0)))
    (before,) = detect(assigned("a b"), {status.instance: status for status in first}, {}, Timeouts())
    answer = plan(before, assigned("a b"), *first)
    moved = published(answer)
    known = IncidentRecord(
        incident=before, answered_by="run", detected_at_ms=None, decided_at_ms=1, generation=moved.generation
    )

    def second(of_b: dict[str, Any], of_a: dict[str, Any]) -> FailoverPlan:
        statuses = {
            "a": instance("a", standby(0, **of_a)),
            "b": instance("b", active(0, generation=moved.generation, **lost, **of_b)),
        }
        (incident,) = detect(moved, statuses, {}, Timeouts())
        return decide(incident, moved, statuses, ["a", "b"], answered={before.id: known})

    assert placed(moved) == ["b a"]
    assert [(d.action, d.to) for d in second(on_b, on_a).decisions] == [(Action.PROMOTE, "a")]
    committed_before = {"committed_generation": 1}
    assert [d.action for d in second(committed_before, committed_before).decisions] == [Action.HOLD]


def test_task_that_committed_since_may_come_back() -> None:
    before = Incident(
        application_id=APPLICATION,
        kind=IncidentKind.TASK_FAILED,
        instance="a",
        incarnation=1,
        tasks=(TaskId(0, 0),),
        evidence="failed",
        error_kind="StateError",
        active_since=1,
        generation=1,
        committed=True,
    )
    now = Incident(
        application_id=APPLICATION,
        kind=IncidentKind.TASK_FAILED,
        instance="b",
        incarnation=1,
        tasks=(TaskId(0, 0),),
        evidence="failed",
        error_kind="StateError",
        active_since=2,
        generation=2,
        committed=True,
    )
    statuses = {"a": instance("a", standby(0)), "b": instance("b", active(0))}

    answer = decide(
        now,
        assigned("b a", generation=2),
        statuses,
        ["a", "b"],
        answered={
            before.id: IncidentRecord(
                incident=before, answered_by="run", detected_at_ms=None, decided_at_ms=1, generation=2
            )
        },
    )

    assert [(d.action, d.to) for d in answer.decisions] == [(Action.PROMOTE, "a")]


def test_standby_with_an_error_is_the_last_choice() -> None:
    answer = plan(
        gone(0),
        assigned("a b c"),
        GONE,
        instance("b", standby(0, error="no room")),
        instance("c", standby(0, lag_records=500)),
    )

    assert answer.decisions[0].to == "c"
    assert "b: lag 0, with an error" in answer.decisions[0].evidence


def test_instance_that_was_paused_is_the_last_choice() -> None:
    paused = dataclasses.replace(instance("b", standby(0, lag_records=0)), paused=True)
    working = instance("c", standby(0, lag_records=1))

    found = plan(gone(0), assigned("a b c"), GONE, paused, working)

    assert found.assignment is not None
    assert placed(found.assignment)[0].startswith("c")


@pytest.mark.parametrize("hand_over", [False, True])
def test_instance_that_shuts_down_gets_no_task_and_the_task_is_found_again(hand_over: bool) -> None:
    leaving = instance("b", standby(0, lag_records=0), state=InstanceState.STOPPING)
    leaving = dataclasses.replace(leaving, stop_hand_over=hand_over)

    found = plan(gone(0), assigned("a b"), GONE, leaving)

    assert found.assignment is not None
    assert found.assignment.tasks[task_id(0)].active is None
    stopped = dataclasses.replace(leaving, state=InstanceState.STOPPED, tasks=())
    later = detect(found.assignment, {"b": stopped, "c": instance("c")}, {"b": 3600.0, "c": 0.1}, Timeouts())
    assert IncidentKind.TASKS_UNOWNED in [incident.kind for incident in later]


def test_tasks_that_stay_keep_the_generation_in_which_they_were_given() -> None:
    answer = plan(gone(0), assigned("a b", "b a"), GONE, instance("b", active(1), standby(0)))

    assert [task.active_since for task in published(answer).tasks.values()] == [2, 1]


def silent(heard_at_ms: int | None) -> Incident:
    return dataclasses.replace(gone(0), kind=IncidentKind.HEARTBEAT_MISSED, heard_at_ms=heard_at_ms)


def test_instance_that_sent_a_heartbeat_since_it_was_found_silent_keeps_its_tasks() -> None:
    statuses = {"a": instance("a", active(0)), "b": instance("b", standby(0))}

    def answer(heard_at_ms: int) -> FailoverPlan:
        return decide(silent(500), assigned("a b"), statuses, ["a", "b"], heard_at_ms={"a": heard_at_ms, "b": 900})

    assert answer(800) == FailoverPlan((), None)
    assert placed(published(answer(500))) == ["b"]


def test_instance_that_ended_since_it_was_found_silent_is_gone() -> None:
    statuses = {"a": GONE, "b": instance("b", standby(0))}

    answer = decide(silent(500), assigned("a b"), statuses, ["b"], heard_at_ms={"a": 800, "b": 900})

    assert placed(published(answer)) == ["b"]


def test_answer_takes_nothing_from_an_instance_that_is_only_not_healthy() -> None:
    names = {name: instance(name) for name in "abcd"}
    assignment = assigned("a b", "b c", "c b", "d a")

    answer = decide(gone(0, instance="a"), assignment, names, ["b", "d"])

    assert placed(published(answer)) == ["b d", "b c", "c b", "d b"]


def test_tasks_without_an_active_get_the_best_there_is() -> None:
    unowned = dataclasses.replace(gone(0, 2, instance=""), kind=IncidentKind.TASKS_UNOWNED)
    assignment = assigned("- b", "b", "-")

    answer = plan(unowned, assignment, instance("b", active(1), standby(0)), instance("c"))

    assert [(str(d.task), d.action, d.to) for d in answer.decisions] == [
        ("0_0", Action.PROMOTE, "b"),
        ("0_2", Action.REPLAY, "c"),
    ]
    assert all(task.active for task in published(answer).tasks.values())


def test_tasks_without_an_active_that_none_can_take_are_left_to_be_found_again() -> None:
    unowned = dataclasses.replace(gone(0, instance=""), kind=IncidentKind.TASKS_UNOWNED)

    assert plan(unowned, assigned("-"), GONE) == FailoverPlan((), None)
    assert plan(unowned, assigned("b"), instance("b")) == FailoverPlan((), None)


def stalled(task: int, instance: str = "a", **more: Any) -> Incident:
    given: dict[str, Any] = {
        "kind": IncidentKind.TASK_STALLED,
        "instance": instance,
        "source_offset": 40,
        "error_kind": None,
    }
    return dataclasses.replace(failed(task, ""), **(given | more))


def test_task_that_stands_still_moves_and_leaves_the_others() -> None:
    here = instance("a", active(0, source_offset=40), active(1, source_offset=9))
    there = instance("b", standby(0), standby(1))

    answer = plan(stalled(0), assigned("a b", "a b"), here, there)

    assert placed(published(answer)) == ["b a", "a b"]


def test_task_that_went_on_by_itself_stays() -> None:
    here = instance("a", active(0, source_offset=41))

    assert plan(stalled(0), assigned("a b"), here, instance("b", standby(0))) == FailoverPlan((), None)


def test_task_whose_source_cannot_be_read_by_any_is_held() -> None:
    here = instance("a", active(0, source_offset=40))

    answer = plan(stalled(0, source_blocked=True), assigned("a b"), here, instance("b", standby(0)))

    assert [d.action for d in answer.decisions] == [Action.HOLD]
    assert "look at the producer of its source" in answer.decisions[0].evidence
    assert answer.assignment is None


def test_task_that_stands_still_or_fails_everywhere_passes_each_instance_once() -> None:
    def incident_on(here: str, **more: Any) -> Incident:
        kind = IncidentKind.TASK_FAILED if here == "b" else IncidentKind.TASK_STALLED
        return stalled(0, here, kind=kind, **more)

    visited, answer = passed_on(incident_on, lambda here: instance(here, active(0, source_offset=40)))

    (decision,) = answer.decisions
    assert sorted(visited) == ["a", "b", "c"]
    assert decision.action is Action.HOLD


def test_lost_generation_is_followed_by_one_above_it_in_the_same_places() -> None:
    lost = dataclasses.replace(gone(0, 1, instance=""), kind=IncidentKind.GENERATION_LOST)
    closed = instance("a", active(0, TaskState.CLOSED, committed_generation=57), standby(1))

    answer = plan(lost, assigned("a b", "b a", "-"), closed, instance("b", active(1), generation=31))

    assert placed(published(answer)) == ["a b", "b a", "-"]
    assert published(answer).generation == 58
    assert [task.active_since for task in published(answer).tasks.values()] == [58, 58, 1]
    assert plan(lost, published(answer), closed, instance("b", generation=58)) == FailoverPlan((), None)


def test_task_that_others_overtook_gets_a_later_generation_in_the_same_place_and_no_other_task_does() -> None:
    lost = dataclasses.replace(gone(0, instance=""), kind=IncidentKind.GENERATION_LOST)
    overtaken = active(0, TaskState.CLOSED, error="x", error_kind="OvertakenError", committed_generation=1)

    answer = plan(lost, assigned("a b", "b a"), instance("a", overtaken, standby(1)), instance("b", active(1)))

    assert [decision.action for decision in answer.decisions] == [Action.RENEW]
    assert placed(published(answer)) == ["a b", "b a"]
    assert [task.active_since for task in published(answer).tasks.values()] == [published(answer).generation, 1]


def test_answer_to_something_else_follows_a_lost_generation_too_and_every_instance_takes_it_over() -> None:
    carried_out = instance("b", active(1), standby(0), generation=31)

    answer = plan(gone(0), assigned("a b", "b a", "-"), GONE, carried_out)

    assert placed(published(answer)) == ["b", "b", "-"]
    assert published(answer).generation == 32
    assert [task.active_since for task in published(answer).tasks.values()] == [32, 32, 1]


RESTARTED = instance("a", state=InstanceState.STARTING, incarnation=2)


def kept(tasks: str = "a", resolved_at_ms: int | None = None) -> dict[str, IncidentRecord]:
    """The answer by which task 0 waited for its instance."""
    answer = plan(gone(0), assigned(tasks), RESTARTED, instance("b"))
    record = IncidentRecord(
        incident=gone(0),
        answered_by="run",
        detected_at_ms=None,
        decided_at_ms=1,
        generation=1,
        plan=answer.decisions,
        resolved_at_ms=resolved_at_ms,
    )
    return {record.incident.id: record}


def test_warm_standby_is_promoted_although_the_instance_is_being_started_again() -> None:
    answer = plan(gone(0), assigned("a b", "b a"), RESTARTED, instance("b", active(1), standby(0)))

    assert [(d.action, d.to) for d in answer.decisions] == [(Action.PROMOTE, "b")]
    assert placed(published(answer)) == ["b", "b"]


def test_instance_that_is_being_started_again_keeps_what_another_would_have_to_replay() -> None:
    answer = plan(gone(0), assigned("a", "b"), RESTARTED, instance("b", active(1)))

    assert [(d.action, d.to) for d in answer.decisions] == [(Action.KEEP, "a")]
    assert answer.assignment is None


def test_of_an_instance_that_is_being_started_again_only_the_warm_tasks_move() -> None:
    answer = plan(gone(0, 1), assigned("a b", "a", "b a"), RESTARTED, instance("b", active(2), standby(0)))

    assert [(d.action, d.to) for d in answer.decisions] == [(Action.PROMOTE, "b"), (Action.KEEP, "a")]
    assert placed(published(answer)) == ["b", "a b", "b"]


def test_task_that_the_new_process_got_stays_there() -> None:
    answer = plan(gone(0), assigned("a b", "a b"), RESTARTED, instance("b", standby(0), standby(1)))

    assert placed(published(answer)) == ["b", "a b"]


def test_task_whose_instance_fails_again_while_it_starts_is_replayed_elsewhere() -> None:
    again = instance("a", state=InstanceState.STARTING, incarnation=3)
    statuses = {"a": again, "b": instance("b")}

    answer = decide(gone(0, incarnation=2), assigned("a"), statuses, ["b"], answered=kept())

    assert [(d.action, d.to) for d in answer.decisions] == [(Action.REPLAY, "b")]
    # One that was whole in between had another failure.
    whole = decide(gone(0, incarnation=2), assigned("a"), statuses, ["b"], answered=kept(resolved_at_ms=5))
    assert [d.action for d in whole.decisions] == [Action.KEEP]


def test_copy_that_is_warm_in_a_moment_is_quicker_than_a_start() -> None:
    copy = standby(0, lag_records=1000, restore_phase=RestorePhase.CHANGELOG)
    soon = dataclasses.replace(copy, restore=dataclasses.replace(copy.restore, remaining_s=4.0))
    late = dataclasses.replace(copy, restore=dataclasses.replace(copy.restore, remaining_s=400.0))

    assert plan(gone(0), assigned("a b"), RESTARTED, instance("b", soon)).decisions[0].action is Action.PROMOTE
    assert plan(gone(0), assigned("a b"), RESTARTED, instance("b", late)).decisions[0].action is Action.KEEP


def test_task_that_waits_for_its_instance_is_decided_about_again_once_a_copy_is_warm() -> None:
    cold = view_of(assigned("a b"), RESTARTED, instance("b"))
    warm = view_of(assigned("a b"), RESTARTED, instance("b", standby(0)))
    cold.incidents, warm.incidents = kept("a b"), kept("a b")

    assert not is_due(gone(0), cold, ["b"], now_ms=1)
    assert is_due(gone(0), warm, ["b"], now_ms=1)


def test_task_that_was_tried_again_and_works_is_left_alone() -> None:
    here, there = instance("a", active(0)), instance("b", standby(0))

    assert plan(failed(0, "StateError"), assigned("a b"), here, there) == FailoverPlan((), None)
