from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.report import FailoverReport
from airflow_provider.demo.results import Timeline

KILLED_MS = 10_000
REPORT = FailoverReport(
    incident_id="i1/1/gone",
    evidence="killed by signal 9",
    decisions=(),
    generation=2,
    failed_at_ms=10_100,
    detected_at_ms=10_200,
    decided_at_ms=11_000,
    owned_at_ms=11_300,
    first_commit_at_ms=12_600,
    resolved_at_ms=40_000,
    restored_records=7,
    rto_ms=2_500,
)


def test_steps_are_timed_from_the_kill() -> None:
    timeline = Timeline.of(
        KILLED_MS, [TaskId(0, 0), TaskId(0, 2)], REPORT, {0: [9_000, 12_000, 13_000], 1: [11_500], 2: [9_900, 12_500]}
    )

    assert timeline.steps() == (
        ("killed", 0.0),
        ("detected", 0.2),
        ("decided", 1.0),
        ("promoted", 1.3),
        ("first committed output", 2.0),
        ("output of all its tasks", 2.6),
        ("redundancy restored", 30.0),
    )
    assert timeline.rto_s == 2.6
    assert timeline.replayed == 7


def test_output_of_the_last_task_ends_it_when_it_is_later_than_reported() -> None:
    assert Timeline.of(KILLED_MS, [TaskId(0, 0), TaskId(0, 2)], REPORT, {0: [12_000], 2: [13_000]}).rto_s == 3.0


def test_task_of_a_later_stage_counts_by_what_its_owner_reports() -> None:
    timeline = Timeline.of(KILLED_MS, [TaskId(0, 0), TaskId(2, 1)], REPORT, {0: [12_000], 1: [11_500]})

    assert timeline.since_kill_s(timeline.first_output_ms) == 2.0
    assert timeline.rto_s == 2.6


def test_output_from_before_the_decision_is_the_dead_instances() -> None:
    timeline = Timeline.of(KILLED_MS, [TaskId(0, 0)], REPORT, {0: [10_050, 12_000]})

    assert timeline.since_kill_s(timeline.first_output_ms) == 2.0


def test_task_without_output_since_leaves_the_rto_open() -> None:
    timeline = Timeline.of(KILLED_MS, [TaskId(0, 0), TaskId(0, 2)], REPORT, {0: [12_000], 2: [9_000]})

    assert timeline.rto_s is None
    assert timeline.since_kill_s(timeline.first_output_ms) == 2.0


def test_unanswered_failure_tells_only_the_kill() -> None:
    timeline = Timeline.of(KILLED_MS, [TaskId(0, 0)], None, {0: [9_000, 10_050]})

    assert [seconds for _, seconds in timeline.steps()] == [0.0, None, None, None, None, None, None]
    assert timeline.replayed is None
