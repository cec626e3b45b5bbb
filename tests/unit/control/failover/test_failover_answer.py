from __future__ import annotations

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.incident_answer import FailoverAnswer
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from tests.builders import APPLICATION, assigned

BOTH = (TaskId(0, 0), TaskId(0, 1))


@pytest.mark.parametrize(
    ("kind", "instance", "after", "line"),
    [
        pytest.param(
            IncidentKind.INSTANCE_ENDED,
            "a",
            assigned("b", "b"),
            "a instance_ended: 2 to b, decided after 1.5 s",
            id="b",
        ),
        pytest.param(
            IncidentKind.HEARTBEAT_MISSED,
            "a",
            assigned("b", "-"),
            "a heartbeat_missed: 1 to b, 1 wait, decided after 1.5 s",
            id="one-waits",
        ),
        pytest.param(
            IncidentKind.TASK_FAILED,
            "a",
            assigned("a", "b"),
            "a task_failed: 1 stay on a, 1 to b, decided after 1.5 s",
            id="one-is-held",
        ),
        pytest.param(
            IncidentKind.TASKS_UNOWNED,
            "",
            assigned("a", "a"),
            "all tasks_unowned: 2 to a, decided after 1.5 s",
            id="all",
        ),
    ],
)
def test_line_tells_one_answer_from_another(kind: IncidentKind, instance: str, after: Assignment, line: str) -> None:
    incident = Incident(
        application_id=APPLICATION, kind=kind, instance=instance, incarnation=1, tasks=BOTH, evidence="seen"
    )
    record = IncidentRecord(
        incident=incident,
        answered_by="run",
        detected_at_ms=1_100,
        decided_at_ms=2_500,
        generation=2,
        failed_at_ms=1_000,
    )

    assert FailoverAnswer.of(record, after).line() == line
