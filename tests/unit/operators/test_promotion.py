from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.operators.assignment import PromoteStandbyOperator
from tests.builders import active, assigned, instance, placed, standby, view_of


def test_promotion_follows_a_generation_that_was_carried_out_and_lost() -> None:
    published = list[Assignment]()
    view = view_of(assigned("a b"), instance("a", active(0), generation=7), instance("b", standby(0), generation=7))
    publisher: Any = SimpleNamespace(view=view, publish=published.append)
    promote = PromoteStandbyOperator(task_id="promote", application_id=view.application_id, tasks="0_0")

    assert promote._publish(publisher, (TaskId(0, 0),), "by choice") == 8  # noqa: SLF001
    assert placed(published[0]) == ["b a"]
    assert published[0].tasks[TaskId(0, 0)].active_since == 8
