from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId, parse_task, parse_tasks, tasks_of
from airflow_provider.errors import ConfigurationError


def test_each_partition_of_each_stage_is_a_task() -> None:
    assert tasks_of({1: 1, 0: 2}) == (TaskId(0, 0), TaskId(0, 1), TaskId(1, 0))
    assert tasks_of({}) == ()


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ("0_3", ["0_3"]),
        (TaskId(0, 3), ["0_3"]),
        (["0_0", TaskId(1, 2)], ["0_0", "1_2"]),
        ("0_1, 1_2", ["0_1", "1_2"]),
        ("['0_4', '0_5']", ["0_4", "0_5"]),
        ("[]", []),
    ],
    ids=["text", "task", "list", "texts", "rendered list", "rendered empty list"],
)
def test_tasks_are_read_as_people_write_them(tasks: Any, expected: list[str]) -> None:
    assert list(map(str, parse_tasks(tasks))) == expected


@pytest.mark.parametrize("task", [3, "3", True, None, "0-3", 0.3], ids=str)
def test_anything_else_than_stage_and_partition_is_refused(task: Any) -> None:
    for read in (parse_task, parse_tasks):
        with pytest.raises(ConfigurationError, match=r"expected .*<stage>_<partition>, such as '0_3'"):
            read(task)
    with pytest.raises(ConfigurationError, match="such as '0_3'"):
        parse_tasks(["0_0", task])
