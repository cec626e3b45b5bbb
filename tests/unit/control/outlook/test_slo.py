"""Whether an application keeps what it promises, said with figures."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.outlook.losses import Losses
from airflow_provider.control.outlook.slo import Slo, missed_promises
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import (
    DiskStatus,
    FailureStatus,
    InstanceState,
    InstanceStatus,
    ProcessStatus,
    Role,
    SourceStatus,
    TaskState,
    TaskStatus,
)
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError
from tests.builders import assigned, promoted

TASK = TaskId(0, 0)
ACTIVE = TaskStatus(
    task=TASK,
    role=Role.ACTIVE,
    state=TaskState.RUNNING,
    generation=1,
    records_per_s=40.0,
    source=SourceStatus(lag_records=500),
)
STANDBY = TaskStatus(task=TASK, role=Role.STANDBY, state=TaskState.FOLLOWING, lag_records=9, lag_s=2.0)
SLO = Slo(lag_s=30, source_lag_records=1_000, disk_free_bytes=1 << 30)
STRICT = Slo(lag_s=1, source_lag_records=100, disk_free_bytes=1 << 40)


def status(name: str, task: TaskStatus) -> InstanceStatus:
    return InstanceStatus(
        application_id="app",
        instance=name,
        incarnation=1,
        state=InstanceState.RUNNING,
        generation=1,
        process=ProcessStatus(host=f"host-{name}"),
        disk=DiskStatus("/state", 1 << 20, 2 << 30),
        tasks=(task,),
    )


def view(active: TaskStatus = ACTIVE, standby: TaskStatus = STANDBY, **more: Any) -> ControlView:
    statuses = {"a": status("a", active), "b": status("b", standby)}
    return ControlView("app", assignment=assigned("a b", generation=1), statuses=statuses, **more)


def missed(view: ControlView, slo: Slo = SLO, standbys: int = 1, silent: float = 0.0) -> list[str]:
    return list(missed_promises(view, slo, standbys, {"a": silent, "b": 0.0}, Timeouts()))


def test_application_that_keeps_everything_has_no_line() -> None:
    assert missed(view()) == []


def test_each_limit_is_named_with_what_was_found() -> None:
    lines = missed(view(), STRICT)

    assert len(lines) == 4
    assert lines[0] == (
        "task 0_0 on a has 500 records of its source unread, 100 are allowed: it processes 40 records/s."
    )
    assert "task 0_0 has 0 of 1 warm standbys (b is following, 2.0 s behind)" in lines[1]
    assert "a has 2,048 MiB free at /state on host-a, 1,048,576 MiB are promised" in lines[2]
    assert lines[3].startswith("b has 2,048 MiB free")


def test_limit_that_is_not_set_is_not_looked_at() -> None:
    assert missed(view(), Slo()) == []


def test_task_that_does_not_run_is_named_with_its_error() -> None:
    failed = dataclasses.replace(ACTIVE, state=TaskState.FAILED, failure=FailureStatus("DecodeError", "no JSON"))

    lines = missed(view(failed))

    assert any(line.startswith("task_failed: ") for line in lines)
    assert "task 0_0 does not run on a: no JSON" in lines


def test_error_of_a_task_that_runs_is_not_hidden() -> None:
    ill = dataclasses.replace(ACTIVE, failure=FailureStatus("BrokerUnreachableError", "no answer"))

    assert missed(view(ill)) == ["task 0_0 runs on a with an error: no answer"]


def test_standby_with_an_error_is_not_warm() -> None:
    ill = dataclasses.replace(STANDBY, failure=FailureStatus("StoreDivergedError", "another digest"))

    (line,) = missed(view(standby=ill))

    assert "has 0 of 1 warm standbys (b has an error: another digest)" in line


@pytest.mark.parametrize("standbys", [pytest.param(1, id="promised"), pytest.param(0, id="assigned-all-the-same")])
def test_standby_that_has_failed_for_good_is_named_with_what_to_do_and_is_no_incident(standbys: int) -> None:
    failed = dataclasses.replace(
        STANDBY, state=TaskState.FAILED, failure=FailureStatus("ConfigurationError", "no Read")
    )
    found = view(standby=failed)
    assert found.assignment is not None

    lines = missed(found, standbys=standbys)

    assert lines[0] == (
        "task 0_0 has no standby on b any more: no Read. It has failed and is not tried again, and no repair helps: "
        "correct that, then deploy b again."
    )
    assert [("has 0 of 1 warm standbys (b has failed)" in line) for line in lines[1:]] == [True] * standbys
    assert detect(found.assignment, found.statuses, {"a": 0.0, "b": 0.0}, Timeouts()) == ()


def test_paused_instance_is_named() -> None:
    found = view()
    found.statuses["a"] = dataclasses.replace(found.statuses["a"], paused=True)

    assert missed(found) == ["a is paused, so its tasks process nothing: resume it by the operate DAG."]


def test_silent_instance_is_an_incident_that_nobody_answered() -> None:
    lines = missed(view(), silent=60.0)

    assert any(line.startswith("heartbeat_missed: ") and "has not answered it" in line for line in lines)


def test_incident_that_was_answered_and_not_repaired_is_open() -> None:
    incident = Incident(
        application_id="app",
        kind=IncidentKind.INSTANCE_ENDED,
        instance="c",
        incarnation=1,
        tasks=(TASK,),
        evidence="exit 1",
    )
    record = IncidentRecord(
        incident=incident,
        answered_by="run",
        detected_at_ms=None,
        decided_at_ms=1_000,
        generation=1,
        plan=(promoted(0, "a"),),
        failed_at_ms=None,
    )

    (line,) = missed(view(incidents={incident.id: record}))
    bare = view(standby=dataclasses.replace(STANDBY, lag_records=None), incidents={incident.id: record})
    resolved = dataclasses.replace(record, resolved_at_ms=2)

    assert line == (
        "instance_ended of c is answered and not repaired since 1970-01-01T00:00:01+00:00 (task 0_0: promote on a "
        "(lag 0)): its repair is under way, or has failed: where no run of the repair DAG is under way, start one."
    )
    assert missed(bare)[1].endswith("a failure now would take longer. The repair that is not over gives them back.")
    assert missed(view(incidents={incident.id: resolved})) == []


def test_application_without_an_assignment_was_never_deployed() -> None:
    assert missed(ControlView("app")) == ["app was never deployed: run its deploy DAG."]


@pytest.mark.parametrize("limits", [{"rto_s": 0}, {"lag_s": -1}, {"disk_free_bytes": 0}])
def test_limit_that_nothing_keeps_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="use a number above 0"):
        Slo(**limits)


LOST = {
    TaskId(0, 0): Losses(late=40, left_out=1, late_in_all=50, left_out_in_all=9),
    TaskId(1, 0): Losses(late=260, left_out=0, late_in_all=260, left_out_in_all=0),
}


def test_records_that_were_left_out_within_the_hour_are_counted_over_all_tasks() -> None:
    lines = missed_promises(view(), Slo(late_per_hour=299, left_out_per_hour=0), 1, {}, Timeouts(), (), LOST)

    late, left_out = lines
    assert late.startswith(
        "300 records came too late within an hour and were left out, 299 are allowed (task 1_0: 260, task 0_0: 40): "
    )
    assert left_out.startswith(
        "1 records could not be processed within an hour and were left out, 0 are allowed (task 0_0: 1): "
    )


def test_records_that_may_be_left_out_or_of_which_nothing_is_promised_are_no_line() -> None:
    for slo in (Slo(late_per_hour=300, left_out_per_hour=1), Slo()):
        assert missed_promises(view(), slo, 1, {}, Timeouts(), (), LOST) == ()


@pytest.mark.parametrize("limits", [{"late_per_hour": -1}, {"left_out_per_hour": "1"}])
def test_number_of_records_below_none_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="use a number of 0 or more"):
        Slo(**limits)


def test_limits_are_told_and_read_again_by_their_names_also_as_texts() -> None:
    slo = Slo(rto_s=1.5, source_lag_records=1_000, late_per_hour=0)

    assert slo.limits == {"rto_s": 1.5, "source_lag_records": 1_000, "late_per_hour": 0}
    assert Slo.parse(slo.limits) == Slo.parse({name: str(limit) for name, limit in slo.limits.items()}) == slo
    assert Slo.parse({"rto_s": None}) == Slo()


@pytest.mark.parametrize(
    ("limits", "message"),
    [({"rto": 10}, "has no limit 'rto': use rto_s, lag_s"), ({"rto_s": "soon"}, "rto_s='soon': use a number above 0")],
    ids=["unknown", "no-number"],
)
def test_limit_that_is_not_one_is_refused_by_its_name(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Slo.parse(limits)
