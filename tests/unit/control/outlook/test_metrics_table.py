from __future__ import annotations

import dataclasses

from airflow_provider.common.timer_count import TimerCount
from airflow_provider.control.outlook.metrics_table import metrics_table
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.records.status import Role
from tests.builders import assigned
from tests.unit.control.records.test_metrics import RECORD, TASK


def at(minute: int, processed: int, end: int, **more: object) -> MetricsRecord:
    task = dataclasses.replace(TASK, processed_records=processed, changelog_end=end)
    return dataclasses.replace(RECORD, at_ms=60_000 * minute, tasks=(task,), **more)  # type: ignore[arg-type]


def cells(line: str) -> list[str]:
    return line.split()


def test_tables_show_the_newest_record_with_means_over_those_before() -> None:
    lines = metrics_table([at(0, 0, 1_000), at(1, 9_000, 1_500), at(2, 12_000, 2_000)]).splitlines()

    assert cells(lines[1]) == ["a", "1970-01-01", "00:02:00", "host-a", "0.0", "MiB", "1,024.0", "MiB", "1", "3"]
    assert lines[3].startswith("task  instance  role    state    processed/s")
    # 12,000 records in two minutes; 1,000 offsets in two minutes.
    assert cells(lines[4])[:9] == ["0_3", "a", "active", "running", "100", "5", "2,000", "30,000", "0"]


def test_rates_begin_anew_with_a_process_and_a_role() -> None:
    restarted = [at(0, 50_000, 1_000), at(1, 60, 1_100, incarnation=8), at(2, 120, 1_200, incarnation=8)]
    assert cells(metrics_table(restarted).splitlines()[4])[4] == "1"

    copy = dataclasses.replace(TASK, role=Role.STANDBY, processed_records=0)
    promoted = [dataclasses.replace(RECORD, at_ms=0, tasks=(copy,)), at(1, 60, 1_100)]
    assert cells(metrics_table(promoted).splitlines()[4])[4] == "-"


def test_timers_of_all_kinds_are_summed_up() -> None:
    timers = {"timers": TimerCount(1_200, 5), "clock": TimerCount(4, 7)}
    found = dataclasses.replace(at(0, 0, 1_000), tasks=(dataclasses.replace(TASK, timers=timers),))

    assert cells(metrics_table([found]).splitlines()[4])[-1] == "1,204"
    assert cells(metrics_table([at(0, 0, 1_000)]).splitlines()[4])[-1] == "-"


def test_application_without_records_has_no_table() -> None:
    assert metrics_table([]) == "no metrics"


def test_only_the_assigned_owner_is_active_and_what_a_lost_instance_said_last_is_over() -> None:
    owner = assigned("-", "-", "-", "b")
    taken = dataclasses.replace(TASK, generation=5)
    records = [at(0, 0, 1_000), dataclasses.replace(at(1, 60, 1_100), instance="b", tasks=(taken,))]

    lines = metrics_table(records, owner).splitlines()

    assert [cells(line)[:4] for line in lines if line.startswith("0_3")] == [["0_3", "b", "active", "running"]]
    assert [cells(line)[0] for line in lines[1:3]] == ["a", "b"]  # what its disk held is still told
