from __future__ import annotations

import dataclasses

from airflow_provider.control.application_reset import StateFolder, plan_reset
from airflow_provider.control.status import DiskStatus, ProcessStatus
from tests.builders import APPLICATION, active, assigned, instance, view_of

EXISTING = {
    f"{APPLICATION}-{name}"
    for name in (
        *("state-changelog", "other-changelog", "0-commits", "x-commits"),
        *("metrics", "status", "history", "assignment"),
    )
} | {"orders", f"{APPLICATION}2-state-changelog"}


def test_own_topics_go_and_the_assignment_last() -> None:
    plan = plan_reset(view_of(None), EXISTING, ["state", "missing"])

    assert plan.topics == ("app-state-changelog", "app-0-commits", "app-metrics", "app-status", "app-assignment")


def test_history_goes_only_where_that_is_asked_for() -> None:
    plan = plan_reset(view_of(None), EXISTING, ["state"], delete_history=True)

    assert plan.topics[-3:] == ("app-status", "app-history", "app-assignment")


def test_stores_and_control_records_are_listed() -> None:
    where = dataclasses.replace(
        instance("a", active(0)),
        process=ProcessStatus(host="host-1"),
        disk=DiskStatus(folder="/mnt/a"),
    )

    plan = plan_reset(view_of(assigned("a -"), where), EXISTING, ["state"])

    assert plan.state == {"a": StateFolder("host-1", "/mnt/a")}
    assert plan.records["instances"] == 1
    assert "  - stores of a: /mnt/a on host-1" in str(plan).splitlines()
