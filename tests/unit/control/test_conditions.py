from __future__ import annotations

import pytest

from airflow_provider.control.conditions import (
    CommandObeyed,
    Condition,
    IncidentResolved,
    InstanceEnded,
    InstanceInState,
    InstanceRunning,
    Outcome,
    StandbysWarm,
    TaskInState,
    TasksReplayed,
    TasksRunning,
    from_plain,
    to_plain,
)
from airflow_provider.control.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.observation import Observation
from airflow_provider.control.status import InstanceState, TaskState
from airflow_provider.errors import ConfigurationError
from tests.builders import APPLICATION, active, assigned, instance, seen, standby

CONDITIONS: list[Condition] = [
    InstanceRunning("a", 3),
    InstanceEnded("a", 3),
    InstanceInState("a", (InstanceState.STOPPED, InstanceState.ENDED)),
    TaskInState(1, (TaskState.RUNNING,), "a"),
    TasksRunning((0, 1), "a", 4),
    StandbysWarm(2, None, 10, 1.5, 4, certified=True),
    CommandObeyed("a", "c1"),
    TasksReplayed("a", "c1", (0,)),
    IncidentResolved("a", 3),
]
A, B = instance("a", active(0), standby(1)), instance("b", active(1), standby(0))
PAIR = assigned("a b", "b a")


def outcome(condition: Condition, observation: Observation) -> Outcome:
    return condition.verdict(observation).outcome


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: type(condition).__name__)
def test_condition_travels_as_plain_values(condition: Condition) -> None:
    assert from_plain(to_plain(condition)) == condition


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: type(condition).__name__)
def test_nothing_is_met_by_nothing(condition: Condition) -> None:
    verdict = condition.verdict(seen(None))

    assert verdict.outcome is Outcome.WAITING
    assert verdict.seen
    assert str(condition)


@pytest.mark.parametrize("plain", [{"kind": "Nonsense"}, {"kind": "InstanceRunning", "instance": "a"}])
def test_values_of_no_condition_are_refused(plain: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        from_plain(plain)


class TestInstanceRunning:
    def test_handle_is_the_result(self) -> None:
        running = instance("a", incarnation=3, pid=12, host="h", log_file="/l")

        verdict = InstanceRunning("a", 3).verdict(seen(None, running))

        assert verdict.outcome is Outcome.MET
        assert verdict.result["pid"] == 12

    @pytest.mark.parametrize(
        ("status", "expected"),
        [
            (instance("a", incarnation=2), Outcome.WAITING),
            (instance("a", incarnation=3, state=InstanceState.STARTING), Outcome.WAITING),
            (instance("a", incarnation=4), Outcome.MET),
            (instance("a", incarnation=3, state=InstanceState.ENDED), Outcome.FAILED),
            (instance("a", incarnation=3, state=InstanceState.STOPPED), Outcome.FAILED),
        ],
        ids=["older process", "starting", "newer process", "ended", "stopped"],
    )
    def test_state_decides(self, status: object, expected: Outcome) -> None:
        assert outcome(InstanceRunning("a", 3), seen(None, status)) is expected  # type: ignore[arg-type]

    def test_old_word_of_it_is_not_enough(self) -> None:
        assert outcome(InstanceRunning("a", 1), seen(None, A, heard=frozenset())) is Outcome.WAITING

    def test_end_says_where_the_log_is(self) -> None:
        ended = instance("a", state=InstanceState.ENDED, error="exit status 1", log_file="/l", host="h")

        assert "/l on h" in InstanceRunning("a", 1).verdict(seen(None, ended)).seen


class TestInstanceEnded:
    @pytest.mark.parametrize(
        ("status", "silent_s", "expected"),
        [
            (instance("a"), 1.0, Outcome.WAITING),
            (instance("a", state=InstanceState.STOPPED), 60.0, Outcome.MET),
            (instance("a", state=InstanceState.ENDED), 0.0, Outcome.FAILED),
            (instance("a"), 5.1, Outcome.FAILED),
            (instance("a", state=InstanceState.STARTING), 60.0, Outcome.WAITING),
            (instance("a", incarnation=2), 0.0, Outcome.FAILED),
        ],
        ids=["runs", "goodbye", "ended", "silent", "starts", "replaced"],
    )
    def test_state_decides(self, status: object, silent_s: float, expected: Outcome) -> None:
        observation = seen(None, status, silent_for_s={"a": silent_s})  # type: ignore[arg-type]

        assert outcome(InstanceEnded("a", 1), observation) is expected


class TestInstanceInState:
    def test_silent_instance_counts_as_ended(self) -> None:
        silent = seen(None, A, silent_for_s={"a": 9.0})

        assert outcome(InstanceInState("a", (InstanceState.ENDED,)), silent) is Outcome.MET
        assert outcome(InstanceInState("a", (InstanceState.RUNNING,)), silent) is Outcome.WAITING

    def test_running_has_to_be_heard(self) -> None:
        running = InstanceInState("a", (InstanceState.RUNNING,))

        assert outcome(running, seen(None, A, heard=frozenset())) is Outcome.WAITING
        assert outcome(running, seen(None, A, heard=frozenset({"a"}))) is Outcome.MET


class TestTaskInState:
    def test_assigned_active_is_asked(self) -> None:
        assert TaskInState(1, (TaskState.RUNNING,)).verdict(seen(PAIR, A, B)).result["instance"] == "b"

    def test_named_instance_is_asked(self) -> None:
        assert outcome(TaskInState(1, (TaskState.FOLLOWING,), "a"), seen(PAIR, A, B)) is Outcome.MET

    def test_task_of_a_dead_instance_is_in_no_state(self) -> None:
        assert outcome(TaskInState(0, (TaskState.RUNNING,)), seen(PAIR, A, silent_for_s={"a": 6.0})) is Outcome.WAITING


class TestTasksRunning:
    def test_all_run(self) -> None:
        verdict = TasksRunning().verdict(seen(PAIR, A, B))

        assert verdict.result == {"generation": 1, "active": {"0": "a", "1": "b"}}

    def test_older_generation_does_not_count(self) -> None:
        assert outcome(TasksRunning(generation=2), seen(PAIR, A, B)) is Outcome.WAITING

    def test_word_of_the_earlier_owner_does_not_count(self) -> None:
        moved = assigned("b a", generation=2)

        assert outcome(TasksRunning(), seen(moved, instance("b", active(0, generation=1)))) is Outcome.WAITING

    def test_other_owner_than_wanted_is_a_failure(self) -> None:
        assert outcome(TasksRunning((0,), "b"), seen(PAIR, A, B)) is Outcome.FAILED

    def test_failed_task_is_a_failure(self) -> None:
        failed = instance("a", active(0, TaskState.FAILED, error="boom"))

        assert "boom" in TasksRunning().verdict(seen(PAIR, failed, B)).seen

    def test_task_that_does_not_exist_is_a_failure(self) -> None:
        assert outcome(TasksRunning((7,)), seen(PAIR, A, B)) is Outcome.FAILED


class TestStandbysWarm:
    def test_every_task_has_one(self) -> None:
        verdict = StandbysWarm().verdict(seen(PAIR, A, B))

        assert verdict.result == {"generation": 1, "lag_records": {"0": {"b": 0}, "1": {"a": 0}}}

    @pytest.mark.parametrize(
        "copy",
        [
            standby(0, lag_records=None),
            standby(0, lag_records=11),
            standby(0, lag_records=1, lag_s=2.1),
            standby(0, lag_records=1, lag_s=None),
        ],
        ids=["cold", "too many records", "too many seconds", "seconds unknown"],
    )
    def test_copy_outside_the_bounds_does_not_count(self, copy: object) -> None:
        observation = seen(PAIR, A, instance("b", active(1), copy))  # type: ignore[arg-type]

        verdict = StandbysWarm(max_lag_records=10, max_lag_s=2.0).verdict(observation)

        assert verdict.outcome is Outcome.WAITING
        assert "task 0 has 0 of 1 standbys" in verdict.seen

    def test_only_the_named_tasks_count(self) -> None:
        assert outcome(StandbysWarm(tasks=(1,)), seen(PAIR, A, instance("b", active(1)))) is Outcome.MET

    def test_copy_on_a_silent_instance_does_not_count(self) -> None:
        assert outcome(StandbysWarm(), seen(PAIR, A, B, silent_for_s={"b": 9.0})) is Outcome.WAITING

    def test_words_from_before_the_observer_listened_do_not_count(self) -> None:
        assert outcome(StandbysWarm(), seen(PAIR, A, B, heard=frozenset({"a"}))) is Outcome.WAITING

    def test_copy_that_the_assignment_does_not_name_does_not_count(self) -> None:
        assert outcome(StandbysWarm(), seen(assigned("a", "b a"), A, B)) is Outcome.WAITING

    def test_task_without_an_owner_is_not_whole(self) -> None:
        verdict = StandbysWarm().verdict(seen(assigned("- b", "b a"), A, B))

        assert "task 0 has no active instance" in verdict.seen

    def test_failed_task_is_a_failure(self) -> None:
        failed = instance("a", active(0, TaskState.FAILED, error="boom"), standby(1))

        assert outcome(StandbysWarm(), seen(PAIR, failed, B)) is Outcome.FAILED


class TestTasksReplayed:
    REPLAY = TasksReplayed("a", "c1", (0, 1))

    def test_command_has_to_be_obeyed_first(self) -> None:
        assert outcome(self.REPLAY, seen(PAIR, A)) is Outcome.WAITING

    def test_restoring_is_waited_out(self) -> None:
        restoring = instance("a", active(0, TaskState.RESTORING), standby(1), last_command="c1")

        assert outcome(self.REPLAY, seen(PAIR, restoring)) is Outcome.WAITING

    def test_counts_are_the_result(self) -> None:
        whole = instance("a", active(0, restored_records=5), standby(1, restored_records=7), last_command="c1")

        assert self.REPLAY.verdict(seen(PAIR, whole)).result["restored_records"] == {"0": 5, "1": 7}

    def test_end_of_the_instance_is_a_failure(self) -> None:
        ended = instance("a", state=InstanceState.ENDED, last_command="c1")

        assert outcome(self.REPLAY, seen(PAIR, ended)) is Outcome.FAILED


class TestIncidentResolved:
    @pytest.mark.parametrize(
        ("resolved_at_ms", "expected"), [(None, Outcome.WAITING), (9, Outcome.MET)], ids=["open", "resolved"]
    )
    def test_record_decides(self, resolved_at_ms: int | None, expected: Outcome) -> None:
        incident = Incident(APPLICATION, IncidentKind.INSTANCE_ENDED, "a", 3, (0,), "killed")
        observation = seen(PAIR, A, B)
        observation.view.incidents[incident.id] = IncidentRecord(
            incident, "run", 1, 2, 2, resolved_at_ms=resolved_at_ms
        )

        assert outcome(IncidentResolved("a", 3), observation) is expected
        assert outcome(IncidentResolved("a", 4), observation) is Outcome.WAITING


@pytest.mark.parametrize(
    ("certified_position", "what"), [(None, Outcome.WAITING), (10, Outcome.MET)], ids=["warm", "certified"]
)
def test_standby_counts_only_when_certified_where_that_is_asked(certified_position: int | None, what: Outcome) -> None:
    a = instance("a", active(0))
    b = instance("b", standby(0, certified_position=certified_position))

    assert outcome(StandbysWarm(certified=True), seen(assigned("a b"), a, b)) is what
    assert outcome(StandbysWarm(), seen(assigned("a b"), a, b)) is Outcome.MET
