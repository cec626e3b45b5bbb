from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.predicted_rto import rto_basis
from airflow_provider.control.records.command import TASK_KILLED
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import (
    CertificateStatus,
    FaultStatus,
    InstanceState,
    InstanceStatus,
    SnapshotStatus,
    TaskState,
    TaskStatus,
)
from airflow_provider.control.waiting.conditions import from_plain
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Observation, Outcome
from airflow_provider.control.waiting.figures import (
    ChangelogGrowthWithin,
    DiskSpaceFree,
    PredictedRtoWithin,
    SourceLagWithin,
)
from airflow_provider.control.waiting.instance import (
    CommandDone,
    InstanceEnded,
    InstanceInState,
    InstanceRunning,
    ProcessingPaused,
    SupervisedRunning,
)
from airflow_provider.control.waiting.recovery import DrillPassedWithin, FaultEnded, FaultTaken, IncidentResolved
from airflow_provider.control.waiting.standby import AllOf, SnapshotsTaken, StandbysCompared, StandbysWarm
from airflow_provider.control.waiting.task import TaskInState, TasksReplayed, TasksRunning
from airflow_provider.errors import ConfigurationError
from tests.builders import APPLICATION, active, assigned, instance, seen, standby
from tests.unit.control.outlook.test_rto_basis import failover, restored

CONDITIONS: list[Condition] = [
    InstanceRunning("a", 3),
    SupervisedRunning("a", 3),
    InstanceEnded("a", 3),
    InstanceInState("a", (InstanceState.STOPPED, InstanceState.ENDED)),
    TaskInState(TaskId(0, 1), (TaskState.RUNNING,), "a"),
    TasksRunning((TaskId(0, 0), TaskId(0, 1)), "a", 4),
    StandbysWarm(num_standby_replicas=2, tasks=None, max_lag_records=10, max_lag_s=1.5, generation=4, certified=True),
    CommandDone("a", "c1"),
    FaultEnded("a", 3, "f"),
    FaultTaken(processes={"a": 1, "b": 2}, command="f", tasks=(TaskId(0, 1),), ends_process=True),
    ProcessingPaused({"a": 3, "b": 4}),
    TasksReplayed("a", "c1", (TaskId(0, 0),)),
    IncidentResolved("a", 3),
    PredictedRtoWithin(max_rto_s=1.5, basis=rto_basis([failover(), restored("b")], {})),
    SnapshotsTaken("a", "c1", {TaskId(0, 1): SnapshotStatus(7, 1_000)}),
    StandbysCompared("a", 3, "c1", {TaskId(0, 1): CertificateStatus(7, 1_000, 1, "c0")}),
    AllOf(
        (
            SnapshotsTaken("a", "c1", {TaskId(0, 1): SnapshotStatus()}),
            StandbysCompared("b", 3, "c2", {TaskId(0, 0): CertificateStatus()}),
        )
    ),
    DiskSpaceFree(min_free_bytes=1 << 30, instances=("a", "b")),
    SourceLagWithin(max_lag_records=10, tasks=(TaskId(0, 1),)),
    ChangelogGrowthWithin(max_records_per_day=1_000, window_s=3_600.0, tasks=(TaskId(0, 1),)),
    DrillPassedWithin(max_age_s=3_600.0, cause="crash"),
]
A, B = instance("a", active(0), standby(1)), instance("b", active(1), standby(0))
PAIR = assigned("a b", "b a")


def outcome(condition: Condition, observation: Observation) -> Outcome:
    return condition.evaluate(observation).outcome


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: type(condition).__name__)
def test_condition_travels_as_plain_values(condition: Condition) -> None:
    plain = to_plain(condition)

    assert plain["kind"] == type(condition).__name__
    assert from_plain(plain) == condition


def test_every_condition_is_among_the_cases() -> None:
    conditions = {kind for kind in Condition.__subclasses__() if kind.__module__.startswith("airflow_provider.")}

    assert {type(condition) for condition in CONDITIONS} == conditions


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: type(condition).__name__)
def test_nothing_is_met_by_nothing(condition: Condition) -> None:
    evaluation = condition.evaluate(seen(None))

    assert evaluation.outcome is Outcome.WAITING
    assert evaluation.seen
    assert str(condition)


@pytest.mark.parametrize("plain", [{"kind": "Nonsense"}, {"kind": "InstanceRunning", "instance": "a"}])
def test_values_of_no_condition_are_refused(plain: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        from_plain(plain)


def ended(incarnation: int, error_kind: str | None = None) -> InstanceStatus:
    status = instance("a", incarnation=incarnation)
    return dataclasses.replace(status, state=InstanceState.ENDED, error_kind=error_kind)


class TestSupervisedRunning:
    """What the supervisor of an instance does is waited for, whatever became of the process before."""

    @pytest.mark.parametrize(
        ("status", "expected"),
        [
            pytest.param(None, Outcome.WAITING, id="never-ran"),
            pytest.param(instance("a", incarnation=2), Outcome.WAITING, id="the-one-before"),
            pytest.param(instance("a", incarnation=3), Outcome.MET, id="runs"),
            pytest.param(
                dataclasses.replace(
                    instance("a", incarnation=2), state=InstanceState.ENDED, error_kind="ConfigurationError"
                ),
                Outcome.WAITING,
                id="the-one-before-ended",
            ),
            pytest.param(
                ended(3),
                Outcome.WAITING,
                id="ended-again",
            ),
            pytest.param(
                dataclasses.replace(
                    instance("a", incarnation=3), state=InstanceState.ENDED, error_kind="ConfigurationError"
                ),
                Outcome.FAILED,
                id="cannot-run",
            ),
        ],
    )
    def test_restart_is_waited_for(self, status: InstanceStatus | None, expected: Outcome) -> None:
        assert SupervisedRunning("a", 3).evaluate(seen(None, *filter(None, [status]))).outcome is expected

    def test_who_has_to_start_it_is_said(self) -> None:
        assert "its supervisor has to start it" in SupervisedRunning("a", 3).evaluate(seen(None)).seen


class TestInstanceRunning:
    def test_handle_is_the_result(self) -> None:
        running = instance("a", incarnation=3, pid=12, host="h", log_file="/l")

        evaluation = InstanceRunning("a", 3).evaluate(seen(None, running))

        assert evaluation.outcome is Outcome.MET
        assert evaluation.result["pid"] == 12

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

        assert "/l on h" in InstanceRunning("a", 1).evaluate(seen(None, ended)).seen


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
        ids=["runs", "stopped", "ended", "silent", "starts", "replaced"],
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
        assert TaskInState(TaskId(0, 1), (TaskState.RUNNING,)).evaluate(seen(PAIR, A, B)).result["instance"] == "b"

    def test_named_instance_is_asked(self) -> None:
        assert outcome(TaskInState(TaskId(0, 1), (TaskState.FOLLOWING,), "a"), seen(PAIR, A, B)) is Outcome.MET

    def test_task_of_a_dead_instance_is_in_no_state(self) -> None:
        assert (
            outcome(TaskInState(TaskId(0, 0), (TaskState.RUNNING,)), seen(PAIR, A, silent_for_s={"a": 6.0}))
            is Outcome.WAITING
        )


class TestTasksRunning:
    def test_all_run(self) -> None:
        evaluation = TasksRunning().evaluate(seen(PAIR, A, B))

        assert evaluation.result == {"generation": 1, "active": {"0_0": "a", "0_1": "b"}}

    def test_older_generation_does_not_count(self) -> None:
        assert outcome(TasksRunning(generation=2), seen(PAIR, A, B)) is Outcome.WAITING

    def test_word_of_the_earlier_owner_does_not_count(self) -> None:
        moved = assigned("b a", generation=2)

        assert outcome(TasksRunning(), seen(moved, instance("b", active(0, generation=1)))) is Outcome.WAITING

    def test_other_owner_than_wanted_is_a_failure(self) -> None:
        assert outcome(TasksRunning((TaskId(0, 0),), "b"), seen(PAIR, A, B)) is Outcome.FAILED

    def test_failed_task_is_a_failure(self) -> None:
        failed = instance("a", active(0, TaskState.FAILED, error="boom"))

        assert "boom" in TasksRunning().evaluate(seen(PAIR, failed, B)).seen

    def test_task_that_does_not_exist_is_a_failure(self) -> None:
        assert outcome(TasksRunning((TaskId(0, 7),)), seen(PAIR, A, B)) is Outcome.FAILED


class TestStandbysWarm:
    def test_task_that_failed_on_an_instance_that_is_restarted_later_is_left_out(self) -> None:
        """The new version that is being rolled out may be what mends it."""
        failed = instance("a", active(0, TaskState.FAILED, error="boom"), standby(1))

        assert outcome(StandbysWarm(), seen(PAIR, failed, B)) is Outcome.FAILED
        assert outcome(StandbysWarm(restarted_later=("b",)), seen(PAIR, failed, B)) is Outcome.FAILED
        assert outcome(StandbysWarm(restarted_later=("a",)), seen(PAIR, failed, B)) is Outcome.MET

    def test_every_task_has_one(self) -> None:
        evaluation = StandbysWarm().evaluate(seen(PAIR, A, B))

        assert evaluation.result == {"generation": 1, "lag_records": {"0_0": {"b": 0}, "0_1": {"a": 0}}}

    @pytest.mark.parametrize(
        "copy",
        [
            standby(0, lag_records=None),
            standby(0, lag_records=11),
            standby(0, lag_records=1, lag_s=2.1),
            standby(0, lag_records=1, lag_s=None),
            standby(0, error="no room"),
        ],
        ids=["cold", "too many records", "too many seconds", "seconds unknown", "with an error"],
    )
    def test_copy_outside_the_bounds_does_not_count(self, copy: object) -> None:
        observation = seen(PAIR, A, instance("b", active(1), copy))  # type: ignore[arg-type]

        evaluation = StandbysWarm(max_lag_records=10, max_lag_s=2.0).evaluate(observation)

        assert evaluation.outcome is Outcome.WAITING
        assert "task 0_0 has 0 of 1 standbys" in evaluation.seen

    @pytest.mark.parametrize(
        ("generation", "wanted", "expected"),
        [
            pytest.param(1, 1, Outcome.FAILED, id="of-this-generation"),
            pytest.param(0, 1, Outcome.WAITING, id="of-an-older-one-that-is-tried-again"),
            pytest.param(1, 2, Outcome.WAITING, id="more-are-wanted-than-assigned"),
            pytest.param(1, 0, Outcome.MET, id="none-is-wanted"),
        ],
    )
    def test_standby_that_failed_for_good_is_not_waited_for(
        self, generation: int, wanted: int, expected: Outcome
    ) -> None:
        failed = dataclasses.replace(
            standby(0, generation=generation, error="no right to read"), state=TaskState.FAILED
        )
        observation = seen(assigned("a b"), instance("a", active(0)), instance("b", failed))

        evaluation = StandbysWarm(num_standby_replicas=wanted).evaluate(observation)

        assert evaluation.outcome is expected
        if expected is Outcome.FAILED:
            assert "failed on b, and no wait helps: no right to read" in evaluation.seen

    def test_only_the_named_tasks_count(self) -> None:
        assert outcome(StandbysWarm(tasks=(TaskId(0, 1),)), seen(PAIR, A, instance("b", active(1)))) is Outcome.MET

    def test_copy_on_a_silent_instance_does_not_count(self) -> None:
        assert outcome(StandbysWarm(), seen(PAIR, A, B, silent_for_s={"b": 9.0})) is Outcome.WAITING

    def test_words_from_before_the_observer_listened_do_not_count(self) -> None:
        assert outcome(StandbysWarm(), seen(PAIR, A, B, heard=frozenset({"a"}))) is Outcome.WAITING

    @pytest.mark.parametrize(
        ("observation", "words"),
        [
            pytest.param(seen(PAIR, A), "b, which has never run", id="never-ran"),
            pytest.param(seen(PAIR, A, instance("b", state=InstanceState.ENDED)), "b is ended", id="ended"),
            pytest.param(seen(PAIR, A, B, silent_for_s={"b": 9.0}), "no heartbeat for 9.0 s", id="silent"),
        ],
    )
    def test_fails_where_that_is_wanted_because_of_an_instance_that_does_not_run(
        self, observation: Observation, words: str
    ) -> None:
        evaluation = StandbysWarm(wait_for_instances=False).evaluate(observation)

        assert evaluation.outcome is Outcome.FAILED
        assert words in evaluation.seen
        assert "run JOB --instance b" in evaluation.seen
        assert outcome(StandbysWarm(), observation) is Outcome.WAITING

    @pytest.mark.parametrize(
        "observation",
        [
            pytest.param(seen(PAIR, A, B, heard=frozenset({"a"})), id="not-heard-yet"),
            pytest.param(
                seen(PAIR, A, instance("b", state=InstanceState.STARTING), silent_for_s={"b": 9.0}), id="starts"
            ),
        ],
    )
    def test_waits_for_an_instance_that_may_live(self, observation: Observation) -> None:
        assert outcome(StandbysWarm(wait_for_instances=False), observation) is Outcome.WAITING

    def test_copy_that_the_assignment_does_not_name_does_not_count(self) -> None:
        assert outcome(StandbysWarm(), seen(assigned("a", "b a"), A, B)) is Outcome.WAITING

    def test_all_that_are_assigned_may_be_asked_for(self) -> None:
        every = StandbysWarm(num_standby_replicas=None)

        assert outcome(every, seen(assigned("a", "b a"), A, B)) is Outcome.MET
        assert outcome(every, seen(assigned("a b c", "b a"), A, B)) is Outcome.WAITING

    def test_task_that_runs_with_an_error_is_not_whole(self) -> None:
        failing = instance("a", active(0, error="no such column", error_kind="StreamingQueryException"), standby(1))

        for condition in (StandbysWarm(), TasksRunning()):
            evaluation = condition.evaluate(seen(PAIR, failing, B))
            assert evaluation.outcome is Outcome.WAITING
            assert "task 0_0 is running on a, StreamingQueryException: no such column" in evaluation.seen

    def test_task_without_an_owner_is_not_whole(self) -> None:
        evaluation = StandbysWarm().evaluate(seen(assigned("- b", "b a"), A, B))

        assert "task 0_0 has no active instance" in evaluation.seen

    def test_failed_task_is_a_failure(self) -> None:
        failed = instance("a", active(0, TaskState.FAILED, error="boom"), standby(1))

        assert outcome(StandbysWarm(), seen(PAIR, failed, B)) is Outcome.FAILED


class TestTasksReplayed:
    REPLAY = TasksReplayed("a", "c1", (TaskId(0, 0), TaskId(0, 1)))

    def test_command_has_to_be_obeyed_first(self) -> None:
        assert outcome(self.REPLAY, seen(PAIR, A)) is Outcome.WAITING

    def test_restoring_is_waited_out(self) -> None:
        restoring = instance(
            "a", active(0, TaskState.RESTORING, replay="c1"), standby(1, replay="c1"), last_commands=("c0", "c1", "c2")
        )

        assert outcome(self.REPLAY, seen(PAIR, restoring)) is Outcome.WAITING

    def test_counts_are_the_result(self) -> None:
        whole = instance(
            "a",
            active(0, restored_records=5, replay="c1"),
            standby(1, restored_records=7, fault="c1"),
            last_commands=("c0", "c1", "c2"),
        )

        assert self.REPLAY.evaluate(seen(PAIR, whole)).result["restored_records"] == {"0_0": 5, "0_1": 7}

    @pytest.mark.parametrize(
        "before",
        [
            pytest.param(active(0, TaskState.FAILED, replay="c0", error="boom"), id="failed"),
            pytest.param(active(0, replay="c0", restored_records=5), id="running"),
        ],
    )
    def test_what_a_task_was_before_the_replay_is_no_answer(self, before: TaskStatus) -> None:
        taken_on = instance("a", before, standby(1, replay="c1"), last_commands=("c1",))

        assert outcome(self.REPLAY, seen(PAIR, taken_on)) is Outcome.WAITING

    def test_replay_that_was_asked_for_later_is_an_answer_too(self) -> None:
        twice = instance("a", active(0, replay="c2"), standby(1, replay="c1"), last_commands=("c0", "c1", "c2"))

        assert outcome(self.REPLAY, seen(PAIR, twice)) is Outcome.MET

    def test_task_that_failed_again_is_a_failure(self) -> None:
        failed = active(0, TaskState.FAILED, replay="c1", error="boom")

        assert outcome(self.REPLAY, seen(PAIR, instance("a", failed, last_commands=("c1",)))) is Outcome.FAILED

    def test_end_of_the_instance_is_a_failure(self) -> None:
        ended = instance("a", state=InstanceState.ENDED, last_commands=("c0", "c1", "c2"))

        assert outcome(self.REPLAY, seen(PAIR, ended)) is Outcome.FAILED


class TestStandbysCompared:
    COMPARED = StandbysCompared("a", 1, "c1", {TaskId(0, 1): CertificateStatus(5, 1_000, 1, "c0")})

    def after(self, **certificate: Any) -> Evaluation:
        known = CertificateStatus(**{"position": 5, "at_ms": 1_000, "divergences": 1, "command": "c0", **certificate})
        copy = dataclasses.replace(standby(1), certificate=known)
        return self.COMPARED.evaluate(seen(PAIR, instance("a", active(0), copy)))

    def test_comparison_that_nobody_asked_for_is_not_the_answer(self) -> None:
        evaluation = self.after(position=9, at_ms=2_000)

        assert evaluation.outcome is Outcome.WAITING
        assert "task 0_1 is not compared yet (following, lag 0" in evaluation.seen

    @pytest.mark.parametrize("command", ["c1", "c2"], ids=["ours", "a later one"])
    def test_comparison_that_was_asked_for_is_the_answer(self, command: str) -> None:
        evaluation = self.after(position=9, at_ms=2_000, command=command)

        assert evaluation.outcome is Outcome.MET
        assert evaluation.result == {"instance": "a", "positions": {"0_1": 9}, "diverged": {}}

    def test_difference_is_an_answer_too(self) -> None:
        evaluation = self.after(position=None, at_ms=None, divergences=2, command="c1")

        assert evaluation.outcome is Outcome.MET
        assert "held something else" in evaluation.result["diverged"]["0_1"]
        assert evaluation.result["positions"] == {}

    @pytest.mark.parametrize(
        ("status", "why"),
        [
            pytest.param(instance("a", incarnation=2), "was replaced", id="replaced"),
            pytest.param(instance("a", state=InstanceState.ENDED), "a is ended", id="ended"),
            pytest.param(instance("a", refusals={"c1": "an old version"}), "refuses: an old version", id="refused"),
            pytest.param(instance("a", active(1)), "the active of task 0_1 now", id="promoted"),
        ],
    )
    def test_what_cannot_answer_any_more_is_a_failure(self, status: InstanceStatus, why: str) -> None:
        evaluation = self.COMPARED.evaluate(seen(PAIR, status))

        assert evaluation.outcome is Outcome.FAILED
        assert why in evaluation.seen


class TestAllOf:
    BOTH = AllOf(
        (
            SnapshotsTaken("a", "c1", {TaskId(0, 1): SnapshotStatus()}),
            SnapshotsTaken("b", "c2", {TaskId(0, 0): SnapshotStatus()}),
        )
    )

    def copied(self, name: str, task: int, at_ms: int | None) -> InstanceStatus:
        copy = dataclasses.replace(standby(task), snapshot=SnapshotStatus(10, at_ms))
        return instance(name, active(1 - task), copy)

    def test_all_are_waited_for(self) -> None:
        a, b = self.copied("a", 1, 5), self.copied("b", 0, None)

        evaluation = self.BOTH.evaluate(seen(PAIR, a, b))

        assert (evaluation.outcome, evaluation.seen) == (Outcome.WAITING, "task 0_0 has no new one yet")

    def test_results_come_in_their_order(self) -> None:
        a, b = self.copied("a", 1, 5), self.copied("b", 0, 6)

        evaluation = self.BOTH.evaluate(seen(PAIR, a, b))

        assert [one["instance"] for one in evaluation.result["results"]] == ["a", "b"]

    def test_one_failure_is_enough(self) -> None:
        a, b = self.copied("a", 1, None), instance("b", state=InstanceState.ENDED)

        assert outcome(self.BOTH, seen(PAIR, a, b)) is Outcome.FAILED


class TestIncidentResolved:
    @pytest.mark.parametrize(
        ("resolved_at_ms", "expected"), [(None, Outcome.WAITING), (9, Outcome.MET)], ids=["open", "resolved"]
    )
    def test_record_decides(self, resolved_at_ms: int | None, expected: Outcome) -> None:
        incident = Incident(
            application_id=APPLICATION,
            kind=IncidentKind.INSTANCE_ENDED,
            instance="a",
            incarnation=3,
            tasks=(TaskId(0, 0),),
            evidence="killed",
        )
        observation = seen(PAIR, A, B)
        observation.view.incidents[incident.id] = IncidentRecord(
            incident=incident,
            answered_by="run",
            detected_at_ms=1,
            decided_at_ms=2,
            generation=2,
            resolved_at_ms=resolved_at_ms,
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


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(instance("a"), Outcome.WAITING, id="lives"),
        pytest.param(instance("a", state=InstanceState.ENDED), Outcome.MET, id="ended"),
        pytest.param(instance("a", incarnation=2), Outcome.MET, id="replaced"),
        pytest.param(instance("a", last_commands=("f",)), Outcome.WAITING, id="accepts"),
        pytest.param(instance("a", last_commands=("f",), refusals={"f": "not here"}), Outcome.FAILED, id="refuses"),
        pytest.param(
            instance("a", last_commands=("g", "f"), refusals={"g": "not here"}), Outcome.WAITING, id="refuses-another"
        ),
    ],
)
def test_fault_that_ends_the_process_is_taken_once_it_is_gone(status: InstanceStatus, expected: Outcome) -> None:
    ends = FaultTaken(processes={"a": 1}, command="f", ends_process=True)

    assert outcome(ends, seen(PAIR, status)) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(instance("a"), Outcome.WAITING, id="lives"),
        pytest.param(instance("a", last_commands=("f",)), Outcome.MET, id="begins"),
        pytest.param(instance("a", last_commands=("f",), refusals={"f": "not here"}), Outcome.FAILED, id="refuses"),
        pytest.param(instance("a", state=InstanceState.ENDED), Outcome.MET, id="ended"),
    ],
)
def test_fault_that_the_process_outlives_is_taken_once_it_says_so(status: InstanceStatus, expected: Outcome) -> None:
    assert outcome(FaultTaken(processes={"a": 1}, command="f"), seen(PAIR, status)) is expected


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        pytest.param(
            (instance("a", active(0), last_commands=("f",)), instance("b", standby(0))), Outcome.WAITING, id="neither"
        ),
        pytest.param(
            (instance("a", active(0, fault="f"), last_commands=("f",)), instance("b", standby(0))),
            Outcome.WAITING,
            id="one",
        ),
        pytest.param(
            (
                instance("a", active(0, fault="f"), last_commands=("f",)),
                instance("b", standby(0, fault="e"), last_commands=("f",)),
            ),
            Outcome.WAITING,
            id="an-earlier-fault",
        ),
        pytest.param(
            (
                instance("a", active(0, fault="f"), last_commands=("f",)),
                instance("b", standby(0, fault="f"), last_commands=("f",)),
            ),
            Outcome.MET,
            id="both",
        ),
        pytest.param(
            (
                instance("a", active(0, fault="f"), last_commands=("f",)),
                instance("b", last_commands=("f",), refusals={"f": "not here"}),
            ),
            Outcome.FAILED,
            id="one-refuses",
        ),
    ],
)
def test_fault_in_stores_is_taken_once_each_copy_reports_it(
    statuses: tuple[InstanceStatus, ...], expected: Outcome
) -> None:
    lost = FaultTaken(processes={"a": 1, "b": 1}, command="f", tasks=(TaskId(0, 0),))

    assert outcome(lost, seen(PAIR, *statuses)) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(instance("a", incarnation=3), Outcome.WAITING, id="lives"),
        pytest.param(instance("a", incarnation=4), Outcome.WAITING, id="replaced"),
        pytest.param(instance("a", incarnation=4, state=InstanceState.ENDED), Outcome.FAILED, id="replacement-ended"),
        pytest.param(instance("a", incarnation=3, state=InstanceState.STOPPED), Outcome.MET, id="stopped"),
        pytest.param(
            instance("a", incarnation=3, state=InstanceState.STOPPED, last_commands=("stop-1",)),
            Outcome.MET,
            id="asked-to-stop",
        ),
        pytest.param(
            instance("a", incarnation=3, state=InstanceState.STOPPED, last_commands=(f"{TASK_KILLED}1",)),
            Outcome.FAILED,
            id="stopped-by-a-cleared-task",
        ),
    ],
)
def test_wait_for_the_end_succeeds_only_on_a_stop_that_was_meant(status: InstanceStatus, expected: Outcome) -> None:
    assert outcome(InstanceEnded("a", 3, for_life=True), seen(PAIR, status)) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(instance("a", standby(1, snapshot=SnapshotStatus(9, 2_000))), Outcome.MET, id="new"),
        pytest.param(instance("a", standby(1, snapshot=SnapshotStatus(7, 1_000, "old"))), Outcome.WAITING, id="old"),
        pytest.param(instance("a"), Outcome.WAITING, id="no-copy-now"),
        pytest.param(instance("a", standby(1, snapshot=SnapshotStatus(7, 1_000, "x"))), Outcome.FAILED, id="not-sent"),
        pytest.param(instance("a", standby(1), refusals={"c1": "it takes none"}), Outcome.FAILED, id="refused"),
        pytest.param(instance("a", state=InstanceState.ENDED), Outcome.FAILED, id="ended"),
    ],
)
def test_snapshot_is_taken_when_it_is_another_than_before(status: InstanceStatus, expected: Outcome) -> None:
    taken = SnapshotsTaken("a", "c1", {TaskId(0, 1): SnapshotStatus(7, 1_000, "old")})

    assert outcome(taken, seen(PAIR, status, B)) is expected


@pytest.mark.parametrize(
    ("a", "wanted", "found"),
    [
        pytest.param(instance("a", incarnation=3, paused=True), True, Outcome.MET, id="paused"),
        pytest.param(instance("a", incarnation=3), True, Outcome.WAITING, id="not yet"),
        pytest.param(instance("a", incarnation=3, paused=True), False, Outcome.WAITING, id="not resumed yet"),
        pytest.param(instance("a", incarnation=4), True, Outcome.FAILED, id="its replacement is not paused"),
        pytest.param(instance("a", incarnation=4), False, Outcome.MET, id="its replacement processes"),
        pytest.param(instance("a", incarnation=3, state=InstanceState.ENDED), True, Outcome.FAILED, id="ended"),
    ],
)
def test_pause_is_met_when_every_process_that_was_asked_reports_it(
    a: InstanceStatus, wanted: bool, found: Outcome
) -> None:
    condition = ProcessingPaused({"a": 3, "b": 1}, wanted)

    assert outcome(condition, seen(PAIR, a, instance("b", paused=wanted))) is found


class TestPredictedRtoWithin:
    BASIS = rto_basis([failover(), restored("b")], {})

    def test_lags_that_fit_are_the_result(self) -> None:
        evaluation = PredictedRtoWithin(max_rto_s=4.0, basis=self.BASIS).evaluate(seen(PAIR, A, B))

        assert evaluation.result == {"predicted_rto_ms": {"0_0": 3_310, "0_1": 3_310}}

    def test_standby_that_is_too_far_behind_is_named_with_what_it_would_take(self) -> None:
        far = instance("b", active(1), standby(0, lag_records=10_000))

        evaluation = PredictedRtoWithin(max_rto_s=4.0, basis=self.BASIS).evaluate(seen(PAIR, A, far))

        assert evaluation.outcome is Outcome.WAITING
        assert evaluation.seen.startswith("task 0_0 from a to b, a warm standby: 4.3 s (")

    def test_task_that_nobody_could_take_over_or_has_waits(self) -> None:
        condition = PredictedRtoWithin(max_rto_s=100.0, basis=self.BASIS)

        alone = condition.evaluate(seen(assigned("a"), instance("a", active(0))))
        bare = condition.evaluate(seen(assigned("- b"), instance("b", standby(0))))

        assert alone.seen.startswith("task 0_0: no other instance runs that could take it over from a")
        assert bare.seen == "task 0_0 has no active instance"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(instance("a", last_commands=("f",)), Outcome.WAITING, id="not-begun"),
        pytest.param(instance("a", fault=FaultStatus(id="f")), Outcome.WAITING, id="goes-on"),
        pytest.param(instance("a", fault=FaultStatus(id="e", over=True)), Outcome.WAITING, id="an-earlier-one"),
        pytest.param(instance("a", fault=FaultStatus(id="f", over=True)), Outcome.MET, id="over"),
        pytest.param(instance("a", state=InstanceState.ENDED), Outcome.FAILED, id="ended"),
        pytest.param(instance("a", incarnation=2), Outcome.FAILED, id="replaced"),
    ],
)
def test_fault_that_lasts_is_over_once_its_process_says_so(status: InstanceStatus, expected: Outcome) -> None:
    assert outcome(FaultEnded("a", 1, "f"), seen(PAIR, status)) is expected
