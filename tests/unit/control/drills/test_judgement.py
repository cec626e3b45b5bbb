from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.judgement import NotMeasuredError, answer_to, judge_drill, judged_record
from airflow_provider.control.records.drill_fault import DrillKind, InjectedFault
from airflow_provider.control.records.history import HistoryOutcome
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord, Recovery
from airflow_provider.control.records.status import FailureStatus, FaultStatus
from airflow_provider.control.records.task_state import TaskRestore
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import InstanceError, StateError, StatefulStreamsError
from tests.builders import APPLICATION, active, assigned, instance, standby, view_of
from tests.unit.control.drills.test_continuity import commit

TASK = TaskId(0, 0)
FAULT = InjectedFault(
    id="f1",
    instance="a",
    incarnation=3,
    generation=1,
    tasks=(TASK,),
    source_offsets={TASK: 100},
    injected_at_ms=1_000,
)
RECOVERY = Recovery(resumed_offsets={TASK: 105}, owned_at_ms=2_300, first_commit_at_ms=2_500)


def after(recovery: Recovery | None = RECOVERY, source_offset: int = 120) -> ControlView:
    """The view after the failover of `a` to `b`."""
    view = view_of(
        assigned("b a", generation=2),
        instance("a", standby(0), incarnation=4),
        instance("b", active(0, source_offset=source_offset, generation=2)),
    )
    incident = Incident(
        application_id=APPLICATION,
        kind=IncidentKind.INSTANCE_ENDED,
        instance="a",
        incarnation=3,
        tasks=(TASK,),
        evidence="killed by signal 9",
        generation=1,
    )
    record = IncidentRecord(
        incident=incident,
        answered_by="run",
        detected_at_ms=1_100,
        decided_at_ms=2_000,
        generation=2,
        failed_at_ms=1_000,
        resolved_at_ms=9_000,
        recovery=recovery,
    )
    view.incidents[incident.id] = record
    return view


def test_drill_is_passed_with_what_it_cost() -> None:
    judged = judge_drill(after(), FAULT, max_rto_s=2.0)

    assert judged.failover is not None
    assert (judged.failover.rto_ms, judged.progress) == (1_500, {TASK: 20})


def test_drill_whose_rto_is_below_zero_is_not_passed_because_clocks_differ() -> None:
    view = after(dataclasses.replace(RECOVERY, owned_at_ms=-1_799_000, first_commit_at_ms=-1_786_000))

    with pytest.raises(NotMeasuredError, match=r"not measured: the clocks of .* differ by 1787\.0 s or more") as error:
        judge_drill(view, FAULT, max_rto_s=15.0)
    record = judged_record(view, FAULT, "run", error.value, 15.0, 9_000)
    assert (record.outcome, record.slo_met, record.rto.total_ms) == (HistoryOutcome.SKIPPED, None, None)


def test_failure_that_none_answered_is_not_passed() -> None:
    view = after()
    other = dataclasses.replace(FAULT, incarnation=2)

    assert answer_to(other, view) is None
    with pytest.raises(InstanceError, match="it was not answered"):
        judge_drill(view, other, None)


def test_incident_of_the_same_process_before_the_fault_is_no_answer_to_it() -> None:
    view = after()
    later = dataclasses.replace(FAULT, generation=2)

    assert answer_to(FAULT, view) is not None
    assert answer_to(later, view) is None


def test_of_several_incidents_since_the_fault_the_first_is_its_answer() -> None:
    view = after()
    (first,) = view.incidents.values()
    second = dataclasses.replace(
        first, incident=dataclasses.replace(first.incident, generation=5), decided_at_ms=5_000, generation=6
    )
    view.incidents[second.incident.id] = second

    assert answer_to(FAULT, view) == first


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(after(dataclasses.replace(RECOVERY, resumed_offsets={TASK: 99})), id="went-on-too-early"),
        pytest.param(after(source_offset=99), id="went-back"),
    ],
)
def test_commits_that_were_lost_are_an_error_of_the_state(view: ControlView) -> None:
    with pytest.raises(StateError, match="commits were lost"):
        judge_drill(view, FAULT, None)


def test_failover_that_took_longer_than_promised_is_failed() -> None:
    with pytest.raises(InstanceError, match=r"later than promised: 1.5 s .*, 1 s are promised") as missed:
        judge_drill(after(), FAULT, max_rto_s=1.0)

    record = judged_record(after(), FAULT, "run", missed.value, 1.0, ended_at_ms=9_500)
    assert (record.outcome, record.slo_met, record.rto.total_ms) == (HistoryOutcome.FAILED, False, 1_500)


def test_drill_without_input_is_skipped() -> None:
    idle = dataclasses.replace(RECOVERY, first_commit_at_ms=None, without_input=(TASK,))
    view = after(idle)
    view.statuses["b"] = instance("b", active(0, source_offset=120, generation=2, owned_at_ms=2_300, stalled_s=0.0))

    with pytest.raises(InstanceError, match="Nothing was measured") as unmeasured:
        judge_drill(view, FAULT, None)

    assert judged_record(view, FAULT, "run", unmeasured.value, None, 9_500).outcome is HistoryOutcome.SKIPPED
    assert judged_record(after(), FAULT, "run", None, None, 9_500).outcome is HistoryOutcome.PASSED


STANDBY_LOST = dataclasses.replace(
    FAULT, kind=DrillKind.STANDBY_LOST, instance="b", incarnation=1, predicted_rto_ms=None
)


def undisturbed(records: int = 7, source_offset: int = 120) -> ControlView:
    """The view after the standby on `b` was restored, while `a` went on."""
    return view_of(
        assigned("a b"),
        instance("a", active(0, source_offset=source_offset), incarnation=3),
        instance("b", standby(0, restored_records=records, fault="f1")),
    )


def test_lost_standby_that_was_restored_is_passed_with_what_was_restored() -> None:
    judged = judge_drill(undisturbed(), STANDBY_LOST, max_rto_s=1.0)

    assert (judged.failover, judged.progress) == (None, {TASK: 20})
    assert [(restore.instance, restore.records) for restore in judged.restores] == [("b", 7)]
    record = judged_record(undisturbed(), STANDBY_LOST, "run", None, 1.0, 9_500)
    assert (record.cause, record.outcome, record.instances) == ("standby_lost", HistoryOutcome.PASSED, ("b",))
    assert (record.restores, record.rto.total_ms, record.slo_met) == (judged.restores, None, None)


def test_failure_where_none_was_to_follow_is_not_passed() -> None:
    view = undisturbed()
    view.incidents.update(after().incidents)

    with pytest.raises(InstanceError, match=r"was to disturb nothing, and failures followed \(instance_ended of a"):
        judge_drill(view, STANDBY_LOST, None)
    with pytest.raises(StateError, match="commits were lost"):
        judge_drill(undisturbed(source_offset=99), STANDBY_LOST, None)


def test_empty_changelog_measures_nothing_and_the_drill_is_skipped() -> None:
    with pytest.raises(NotMeasuredError) as unmeasured:
        judge_drill(undisturbed(records=0), STANDBY_LOST, None)

    record = judged_record(undisturbed(records=0), STANDBY_LOST, "run", unmeasured.value, None, 9_500)
    assert record.outcome is HistoryOutcome.SKIPPED


def test_store_that_failed_otherwise_than_by_the_damage_is_not_passed() -> None:
    view = after()
    (record,) = view.incidents.values()
    damaged = dataclasses.replace(FAULT, kind=DrillKind.STORE_CORRUPTED)

    with pytest.raises(
        InstanceError, match="was to be found as StoreCorruptedError, and 'killed by signal 9' was found"
    ):
        judge_drill(view, damaged, None)

    incident = dataclasses.replace(record.incident, kind=IncidentKind.TASK_FAILED, error_kind="StoreCorruptedError")
    view.incidents = {incident.id: dataclasses.replace(record, incident=incident)}
    assert judge_drill(view, damaged, None).progress == {TASK: 20}


SHADOW = dataclasses.replace(FAULT, kind=DrillKind.SHADOW_RESTORE, instance="b", incarnation=1)
REPLAYED = TaskRestore(task=TASK, instance="b", records=9, bytes=90, took_s=0.5)


def shadowed(fault: FaultStatus | None) -> ControlView:
    """The view after a replay beside the standby's store on `b`."""
    return view_of(
        assigned("a b"),
        instance("a", active(0, source_offset=120), incarnation=3),
        instance("b", standby(0), fault=fault),
    )


def test_replay_beside_the_store_is_passed_with_its_records_bytes_and_rate() -> None:
    view = shadowed(FaultStatus(id="f1", over=True, restores=(REPLAYED,)))

    assert judge_drill(view, SHADOW, 1.0).restores == (REPLAYED,)
    record = judged_record(view, SHADOW, "run", None, 1.0, 9_500)
    assert (record.restored_records, record.restored_bytes, record.restored_records_per_s) == (9, 90, 18.0)


@pytest.mark.parametrize(
    ("fault", "error", "outcome"),
    [
        pytest.param(None, InstanceError, HistoryOutcome.FAILED, id="not-reported"),
        pytest.param(FaultStatus(id="e", over=True), InstanceError, HistoryOutcome.FAILED, id="another-drills"),
        pytest.param(
            FaultStatus(id="f1", over=True, failure=FailureStatus("StoreDivergedError", "it differs")),
            StateError,
            HistoryOutcome.FAILED,
            id="digest-differs",
        ),
        pytest.param(
            FaultStatus(id="f1", over=True, failure=FailureStatus("BrokerUnreachableError", "no answer")),
            InstanceError,
            HistoryOutcome.FAILED,
            id="not-replayed",
        ),
        pytest.param(
            FaultStatus(id="f1", over=True, restores=(REPLAYED,), unmeasured="no digest"),
            NotMeasuredError,
            HistoryOutcome.SKIPPED,
            id="nothing-to-compare",
        ),
    ],
)
def test_replay_that_was_not_compared_or_differs_is_not_passed(
    fault: FaultStatus | None, error: type[StatefulStreamsError], outcome: HistoryOutcome
) -> None:
    with pytest.raises(error) as found:
        judge_drill(shadowed(fault), SHADOW, None)

    assert judged_record(shadowed(fault), SHADOW, "run", found.value, None, 9_500).outcome is outcome


def test_owner_that_did_not_go_on_at_the_very_last_commit_is_an_error() -> None:
    last, first = commit(7, "a", 1, 104), commit(8, "b", 2, 110)

    with pytest.raises(StateError, match="task 0_0 went on at source offset 105, after commit 7 of a"):
        judge_drill(after(), FAULT, None, {TASK: [last, first]})

    judge_drill(after(), FAULT, None, {TASK: [commit(7, "a", 1, 105), first]})


def test_zombie_that_wrote_after_its_successor_is_an_error_in_every_kind_of_drill() -> None:
    commits = {TASK: [commit(7, "a", 1, 105), commit(8, "b", 2, 110), commit(8, "a", 1, 107)]}

    for view, fault in ((after(), FAULT), (undisturbed(), STANDBY_LOST)):
        with pytest.raises(StateError, match="an owner wrote after its successor"):
            judge_drill(view, fault, None, commits)
