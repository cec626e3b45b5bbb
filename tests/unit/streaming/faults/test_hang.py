from __future__ import annotations

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.control.topics.view import ControlView
from airflow_provider.streaming.faults.hang import run_elsewhere
from tests.builders import active, assigned, instance, standby, view_of

TASKS = (TaskId(0, 0), TaskId(0, 1))
STANDING = instance("a", active(0), active(1))


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(view_of(assigned("a b", "a b"), STANDING, instance("b", standby(0))), False, id="not-moved"),
        pytest.param(
            view_of(assigned("b a", "b a", generation=2), STANDING, instance("b", standby(0), standby(1))),
            False,
            id="assigned",
        ),
        pytest.param(
            view_of(
                assigned("b a", "b a", generation=2),
                STANDING,
                instance("b", active(0, generation=2), active(1, TaskState.RESTORING, generation=2)),
            ),
            False,
            id="one-restores",
        ),
        pytest.param(
            view_of(
                assigned("b a", "b a", generation=2),
                STANDING,
                instance("b", active(0, generation=2), active(1, generation=2)),
            ),
            True,
            id="both-run",
        ),
        pytest.param(
            view_of(assigned("b a", "- a", generation=2), STANDING, instance("b", active(0, generation=2))),
            False,
            id="one-has-no-owner",
        ),
        pytest.param(view_of(assigned("a b", "a b"), instance("a", incarnation=2)), True, id="replaced"),
    ],
)
def test_instance_stands_still_until_its_tasks_run_elsewhere(view: ControlView, expected: bool) -> None:
    assert run_elsewhere(view, "a", 1, TASKS) is expected
