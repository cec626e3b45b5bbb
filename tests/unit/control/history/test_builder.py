from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.builder import (
    drill_record,
    failover_record,
    restore_record,
    restores_of,
    upgrade_record,
)
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, Rpo, RtoParts, history_key
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord, Recovery
from airflow_provider.control.records.task_state import TaskRestore
from tests.builders import APPLICATION, promoted

ONE, TWO = TaskId(0, 0), TaskId(0, 1)
RECORD = IncidentRecord(
    incident=Incident(
        application_id=APPLICATION,
        kind=IncidentKind.INSTANCE_ENDED,
        instance="a",
        incarnation=7,
        tasks=(ONE, TWO),
        evidence="killed by signal 9",
    ),
    answered_by="run-1",
    detected_at_ms=1_100,
    decided_at_ms=2_000,
    generation=2,
    plan=(promoted(0, "b"), promoted(1, "b")),
    failed_at_ms=1_000,
)
RECOVERY = Recovery(
    resumed_offsets={ONE: 40, TWO: 50},
    owned_at_ms=2_200,
    first_commit_at_ms=3_000,
    restores=(TaskRestore(task=ONE, instance="b", records=4, bytes=100, took_s=0.1),),
    lost_records=0,
)
FAULT = InjectedFault(
    id="drill/run-9/inject_fault/-1",
    instance="a",
    incarnation=7,
    generation=1,
    tasks=(ONE, TWO),
    source_offsets={ONE: 38, TWO: 50, TaskId(0, 2): 9},
    injected_at_ms=900,
    predicted_rto_ms=2_500,
)


def test_failover_is_open_until_it_is_resolved() -> None:
    answered = failover_record(RECORD)
    resolved = failover_record(dataclasses.replace(RECORD, resolved_at_ms=9_000), RECOVERY, slo_rto_s=10.0)

    assert (answered.outcome, answered.ended_at_ms) == (HistoryOutcome.OPEN, None)
    assert answered.rto == RtoParts(detected_ms=100, decided_ms=900)
    assert (resolved.outcome, resolved.ended_at_ms) == (HistoryOutcome.PASSED, 9_000)
    assert resolved.rto == RtoParts(detected_ms=100, decided_ms=900, owned_ms=200, first_output_ms=800, total_ms=2_000)
    assert (resolved.at_ms, resolved.by, resolved.instances, resolved.tasks) == (1_000, "run-1", ("a",), (ONE, TWO))
    assert (resolved.decisions, resolved.restores) == (RECORD.plan, RECOVERY.restores)
    assert (resolved.rpo, resolved.slo_met) == (Rpo(lost_records=0), True)
    assert history_key(answered) == history_key(resolved)


def test_failover_by_hand_is_timed_from_the_failure_and_its_parts_are_not_known() -> None:
    by_hand = dataclasses.replace(RECORD, detected_at_ms=None)

    assert failover_record(by_hand, RECOVERY).rto == RtoParts(owned_ms=200, first_output_ms=800, total_ms=2_000)


def test_instance_that_never_sent_a_heartbeat_is_timed_from_its_detection() -> None:
    never = failover_record(dataclasses.replace(RECORD, failed_at_ms=0), RECOVERY)

    assert (never.at_ms, never.rto.detected_ms, never.rto.total_ms) == (1_100, None, 1_900)


def test_output_that_a_clock_puts_before_the_failure_is_said_with_the_clocks() -> None:
    behind = failover_record(dataclasses.replace(RECORD, failed_at_ms=1_790_000), RECOVERY, slo_rto_s=10.0)

    assert (behind.rto.total_ms, behind.slo_met) == (None, None)
    assert behind.reason == "not measured: the clocks of the brokers and of b differ by 1787.0 s or more"


def test_each_move_by_hand_is_an_event_of_its_own() -> None:
    manual = dataclasses.replace(
        RECORD, incident=dataclasses.replace(RECORD.incident, kind=IncidentKind.MANUAL), generation=2
    )

    ids = {failover_record(dataclasses.replace(manual, generation=generation)).id for generation in (2, 3, 3)}

    assert ids == {"a/7/manual/2", "a/7/manual/3"}


def test_drill_has_its_failover_the_prediction_and_what_became_of_the_input() -> None:
    drill = drill_record(
        APPLICATION, FAULT, "run-9", outcome=HistoryOutcome.PASSED, record=RECORD, recovery=RECOVERY, slo_rto_s=1.0
    )

    assert (drill.kind, drill.id, drill.cause, drill.at_ms) == (HistoryKind.DRILL, FAULT.id, "crash", 900)
    assert drill.rto.total_ms == 2_000
    assert (drill.predicted_rto_ms, drill.prediction_error_percent, drill.slo_met) == (2_500, 25.0, False)
    assert drill.rpo == Rpo(lost_records=0, doubled_records=0)
    assert drill.decisions == RECORD.plan


def test_drill_without_an_answer_is_noted_all_the_same() -> None:
    drill = drill_record(APPLICATION, FAULT, "run-9", outcome=HistoryOutcome.FAILED, reason="not answered")

    assert (drill.rto, drill.rpo, drill.reason) == (RtoParts(), Rpo(), "not answered")


@pytest.mark.parametrize(
    ("resumed", "doubled"),
    [
        pytest.param({ONE: 38, TWO: 50}, 0, id="at-the-commits"),
        pytest.param({ONE: 30, TWO: 45}, 13, id="before-them"),
        pytest.param({ONE: 38}, None, id="one-is-not-known"),
    ],
)
def test_input_that_an_owner_went_back_for_is_doubled(resumed: dict[TaskId, int], doubled: int | None) -> None:
    recovery = dataclasses.replace(RECOVERY, resumed_offsets=resumed)

    assert drill_record(APPLICATION, FAULT, "r", record=RECORD, recovery=recovery).rpo.doubled_records == doubled


def test_task_whose_owner_had_committed_nothing_doubles_nothing() -> None:
    fault = dataclasses.replace(FAULT, source_offsets={ONE: 38})
    recovery = dataclasses.replace(RECOVERY, resumed_offsets={ONE: 38})
    nothing = dataclasses.replace(FAULT, source_offsets={})

    assert drill_record(APPLICATION, fault, "r", record=RECORD, recovery=recovery).rpo.doubled_records == 0
    assert drill_record(APPLICATION, nothing, "r", record=RECORD, recovery=recovery).rpo.doubled_records is None


def test_restore_began_as_long_ago_as_the_longest_took() -> None:
    restores = restores_of("b", {"0_1": 10, "0_0": 20}, {"0_1": 100, "0_0": 200}, {"0_1": 2.0, "0_0": 0.5})
    done = restore_record(APPLICATION, "id", "run", "b", [ONE, TWO], ended_at_ms=9_000, restores=restores)

    assert [restore.task for restore in restores] == [ONE, TWO]
    assert (done.at_ms, done.ended_at_ms, done.outcome) == (7_000, 9_000, HistoryOutcome.PASSED)
    assert (done.restored_records, done.restored_bytes, done.restored_records_per_s) == (30, 300, 12.0)


def test_restore_that_failed_says_why() -> None:
    failed = restore_record(APPLICATION, "id", "run", "b", [ONE], ended_at_ms=9_000, reason="it ended")

    assert (failed.outcome, failed.reason, failed.restored_records_per_s) == (HistoryOutcome.FAILED, "it ended", None)


def test_upgrade_says_what_differed() -> None:
    upgrade = upgrade_record(APPLICATION, "id", "run", "b", ["job file", "env_vars"], at_ms=5)

    assert (upgrade.outcome, upgrade.evidence) == (HistoryOutcome.OPEN, "deployed otherwise: job file, env_vars")
