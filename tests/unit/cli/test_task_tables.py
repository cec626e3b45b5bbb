from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.cli.task_tables import certified, standby_table, timer_table
from airflow_provider.common.task_id import TaskId
from airflow_provider.common.timer_count import TimerCount
from airflow_provider.control.overview.standbys import standby_rows
from airflow_provider.control.records.status import CertificateStatus, InstanceState, SnapshotStatus
from tests.builders import active, assigned, instance, standby, view_of

NOW_MS = 10_000_000
COMPARED = CertificateStatus(4_711, NOW_MS - 150_000, 1)
COPIED = SnapshotStatus(4_000, NOW_MS - 7_200_000)


def test_each_standby_has_a_row_with_ages_by_the_clock_of_its_host() -> None:
    copy = dataclasses.replace(standby(0, lag_records=1_234, lag_s=2.0), certificate=COMPARED, snapshot=COPIED)
    view = view_of(assigned("a b"), instance("a", active(0)), instance("b", copy, sent_at_ms=NOW_MS))

    (row,) = standby_rows(view)

    assert (row.task, row.instance, row.state, row.divergences) == (TaskId(0, 0), "b", "warm", 1)
    assert (row.certified_age_ms, row.snapshot_age_ms) == (150_000, 7_200_000)
    _, line = standby_table([row]).splitlines()
    for words in ("0_0", "b", "warm", "1,234", "2.0", "1970-01-01 02:44:10", "2 min", "2 h ago"):
        assert words in line


def test_standby_that_is_assigned_and_not_reported_has_a_row_too() -> None:
    view = view_of(assigned("a b c"), instance("a", active(0)), instance("b", state=InstanceState.ENDED))

    assert [(row.instance, row.state) for row in standby_rows(view)] == [("b", "no copy"), ("c", "no copy")]


@pytest.mark.parametrize("trouble", ["of the store", "of the snapshot"])
def test_what_is_wrong_with_a_standby_or_its_snapshot_is_whole_below_the_table(trouble: str) -> None:
    why = "no\nroom " + "x" * 200
    copy = standby(0, error=why) if trouble == "of the store" else standby(0)
    if trouble == "of the snapshot":
        copy = dataclasses.replace(copy, snapshot=SnapshotStatus(error=why))

    rows = standby_rows(view_of(assigned("a b"), instance("b", copy)))

    assert rows[0].error == why
    assert standby_table(rows).split("\n\n")[1].split() == [
        *["errors", "of", "standbys:", "task", "0_0:", "on", "b:", "no", "room"],
        "x" * 200,
    ]


def test_certificate_is_a_word_or_two() -> None:
    assert certified(active(0), NOW_MS) == "-"
    assert certified(standby(0), NOW_MS) == "no commit", "nothing that it could be compared with"
    assert certified(standby(0, committed_generation=1), NOW_MS) == "no"
    assert certified(dataclasses.replace(standby(0), certificate=COMPARED), NOW_MS) == "2 min ago, differed 1x"


TIMERS = [
    (TaskId(0, 0), {"timers": TimerCount(1_200, NOW_MS), "clock": TimerCount()}),
    (TaskId(0, 1), {"timers": TimerCount(3, NOW_MS - 60_000), "clock": TimerCount(2, -5)}),
]


def test_timers_have_a_row_for_each_task_and_kind() -> None:
    lines = [line.split() for line in timer_table(TIMERS, by_stage=False).splitlines()[1:]]

    assert lines == [
        ["0_0", "event", "time", "1,200", "1970-01-01", "02:46:40"],
        ["0_0", "clock", "0", "-"],
        ["0_1", "event", "time", "3", "1970-01-01", "02:45:40"],
        ["0_1", "clock", "2", "1969-12-31", "23:59:59"],
    ]


def test_timers_of_many_tasks_are_summed_up_by_stage() -> None:
    lines = [line.split() for line in timer_table(TIMERS, by_stage=True).splitlines()[1:]]

    assert lines[0] == ["0_*", "event", "time", "1,203", "1970-01-01", "02:45:40"]
