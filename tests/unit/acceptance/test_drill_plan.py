from __future__ import annotations

from airflow_provider.control.records.drill_fault import DrillKind
from tests.acceptance.drill_plan import KINDS, schedules


def test_ten_drills_of_all_kinds_are_due_one_after_the_other() -> None:
    plan = schedules(now_s=50 * 60.0, minutes=3)

    due = {int(minute): kind for kind, cron in plan.items() for minute in cron.split()[0].split(",")}
    assert [due[(52 + 3 * number) % 60] for number in range(10)] == [kind.value for kind in KINDS]
    assert set(plan) == {kind.value for kind in DrillKind}
    assert all(cron.endswith(" * * * *") for cron in plan.values())
