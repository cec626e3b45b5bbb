from __future__ import annotations

import dataclasses
from typing import Any

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.predicted_rto import PhaseTimes, RestoreRate, phase_times, restore_rate
from airflow_provider.control.records.history import HistoryKind, HistoryRecord, RtoParts
from airflow_provider.control.records.incident import Action, Decision, IncidentKind
from airflow_provider.control.records.status import RestorePhase, RestoreStatus, TaskStatus
from airflow_provider.control.records.task_state import TaskRestore
from airflow_provider.control.topics.liveness import Timeouts
from tests.builders import APPLICATION, active, instance, standby


def failover(
    detected_ms: int | None = 10,
    kind: IncidentKind = IncidentKind.INSTANCE_ENDED,
    restore_s: float = 0.0,
    actions: tuple[Action, ...] = (Action.PROMOTE,),
    owned_ms: int = 300,
) -> HistoryRecord:
    return HistoryRecord(
        application_id=APPLICATION,
        kind=HistoryKind.FAILOVER,
        id="i",
        cause=kind.value,
        at_ms=1,
        by="run",
        decisions=tuple(Decision(task=TaskId(0, 0), action=action, to=None, evidence="") for action in actions),
        rto=RtoParts(
            detected_ms=detected_ms, decided_ms=2_000, owned_ms=owned_ms, first_output_ms=1_000, total_ms=3_310
        ),
        restores=(TaskRestore(task=TaskId(0, 0), instance="b", records=5, bytes=50, took_s=restore_s),),
    )


def test_application_without_failovers_has_documented_defaults() -> None:
    assert phase_times([], Timeouts(instance_s=3.0)) == PhaseTimes(
        detected_ms=3_000, decided_ms=3_000, owned_ms=500, first_output_ms=1_000, failovers=0
    )
    assert phase_times([], Timeouts(), IncidentKind.INSTANCE_ENDED).detected_ms == 100
    assert phase_times([], Timeouts(), IncidentKind.TASK_FAILED).detected_ms == 100


def test_ninetieth_percentile_counts() -> None:
    history = [failover(detected_ms=number) for number in range(1, 11)]

    found = phase_times(history, Timeouts())

    assert (found.detected_ms, found.decided_ms, found.owned_ms, found.failovers) == (9, 2_000, 300, 10)


def test_only_the_newest_fifty_count() -> None:
    history = [*(failover(detected_ms=9_999) for _ in range(30)), *(failover(detected_ms=7) for _ in range(50))]

    assert phase_times(history, Timeouts()).detected_ms == 7


def test_what_was_restored_is_not_of_the_first_output() -> None:
    assert phase_times([failover(restore_s=0.4)], Timeouts()).first_output_ms == 600
    assert phase_times([failover(restore_s=4.0)], Timeouts()).first_output_ms == 0


def test_failover_whose_clocks_differ_says_nothing() -> None:
    behind = dataclasses.replace(failover(), rto=RtoParts(owned_ms=-1_790_000, total_ms=-1_787_000))

    assert phase_times([behind], Timeouts()).owned_ms == 500
    assert phase_times([behind, failover()], Timeouts()).failovers == 1


def test_failovers_of_the_same_cause_count_where_there_are_some() -> None:
    history = [failover(detected_ms=20), failover(detected_ms=6_000, kind=IncidentKind.HEARTBEAT_MISSED)]

    assert phase_times(history, Timeouts()).detected_ms == 6_000
    assert phase_times(history, Timeouts(), IncidentKind.INSTANCE_ENDED).detected_ms == 20


def test_detection_says_nothing_of_failures_that_are_found_in_another_way() -> None:
    ended = [failover(detected_ms=20)]
    silent = [failover(detected_ms=6_000, kind=IncidentKind.HEARTBEAT_MISSED)]

    after_silence = phase_times(silent, Timeouts(), IncidentKind.INSTANCE_ENDED)
    assert (after_silence.detected_ms, after_silence.decided_ms, after_silence.failovers) == (100, 2_000, 1)
    assert phase_times(ended, Timeouts(), IncidentKind.HEARTBEAT_MISSED).detected_ms == 5_000


def test_moves_by_hand_failed_tasks_and_drills_say_nothing_of_a_lost_instance() -> None:
    drill = dataclasses.replace(failover(), kind=HistoryKind.DRILL, cause="crash")
    others = [failover(kind=kind) for kind in (IncidentKind.MANUAL, IncidentKind.TASK_FAILED)]

    assert phase_times([drill, *others, dataclasses.replace(failover(), cause="newer")], Timeouts()).failovers == 0


def test_part_that_was_not_measured_or_is_below_zero_by_the_clocks_does_no_harm() -> None:
    assert phase_times([failover(detected_ms=None)], Timeouts()).detected_ms == 5_000
    assert phase_times([failover(detected_ms=-40)], Timeouts()).detected_ms == 0


def test_failed_tasks_count_for_failed_tasks_alone() -> None:
    history = [failover(detected_ms=20), failover(detected_ms=900, kind=IncidentKind.TASK_FAILED)]

    assert phase_times(history, Timeouts()).detected_ms == 20
    assert phase_times(history, Timeouts(), IncidentKind.TASK_FAILED).detected_ms == 900


def restored(
    name: str, records: int = 20_000, took_s: float = 2.0, kind: HistoryKind = HistoryKind.RESTORE
) -> HistoryRecord:
    restore = TaskRestore(task=TaskId(0, 0), instance=name, records=records, bytes=10 * records, took_s=took_s)
    return HistoryRecord(
        application_id=APPLICATION, kind=kind, id=name, cause="replay", at_ms=1, by="run", restores=(restore,)
    )


def restoring(task: TaskStatus, **restore: Any) -> TaskStatus:
    return dataclasses.replace(task, restore=RestoreStatus(**restore))


def rate(name: str | None, *history: HistoryRecord, **tasks: TaskStatus) -> RestoreRate:
    return restore_rate(name, {name: instance(name, task) for name, task in tasks.items()}, history)


def test_instance_is_judged_by_its_own_restores() -> None:
    assert rate("b", restored("a", took_s=0.1), restored("b"), restored("b", 40_000, took_s=8.0)) == RestoreRate(
        records_per_s=6_000.0, bytes_per_s=60_000.0, measured=True
    )


def test_instance_without_a_restore_is_judged_by_the_others() -> None:
    assert rate("c", restored("a")).records_per_s == 10_000.0
    assert rate(None, restored("a")).records_per_s == 10_000.0


def test_default_where_nothing_or_only_little_was_restored() -> None:
    few = restored("b", records=9_999)

    assert rate("b", few) == RestoreRate(records_per_s=100_000.0, bytes_per_s=None, measured=False)


def test_failover_counts_once_although_its_drill_has_the_same_restores() -> None:
    both = [restored("b", kind=HistoryKind.FAILOVER), restored("b", took_s=1.0, kind=HistoryKind.DRILL)]

    assert rate("b", *both).records_per_s == 10_000.0


def test_replay_of_a_drill_that_no_failover_answers_counts() -> None:
    shadow = dataclasses.replace(restored("b", kind=HistoryKind.DRILL), cause="shadow_restore")

    assert rate("b", shadow).records_per_s == 10_000.0


def test_restore_under_way_and_that_of_an_active_count() -> None:
    now = {"records": 30_000, "took_s": 3.0}

    assert rate("b", b=restoring(standby(0), phase=RestorePhase.CHANGELOG, **now)).records_per_s == 10_000.0
    assert rate("b", b=restoring(active(0), **now)).records_per_s == 10_000.0


def test_what_a_standby_followed_since_its_restore_is_no_rate() -> None:
    assert not rate("b", b=restoring(standby(0), records=30_000_000, took_s=3.0)).measured
