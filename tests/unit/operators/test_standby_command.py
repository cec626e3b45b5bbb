from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.errors import InstanceError
from airflow_provider.operators.instance_commands import CertifyStandbysOperator


def met(*results: dict[str, Any]) -> dict[str, Any]:
    return {"outcome": "met", "waited_for": "", "waited_s": 1.0, "seen": "", "result": {"results": list(results)}}


def certify() -> CertifyStandbysOperator:
    return CertifyStandbysOperator(task_id="certify", application_id="app")


def test_positions_are_the_result() -> None:
    a = {"instance": "a", "positions": {"0_1": 10}, "diverged": {}}
    b = {"instance": "b", "positions": {"0_0": 11}, "diverged": {}}

    assert certify().execute_complete({}, met(a, b)) == {"a": {"0_1": 10}, "b": {"0_0": 11}}


def test_difference_fails_the_task_and_says_where() -> None:
    a = {"instance": "a", "positions": {"0_1": 10}, "diverged": {"0_2": "it held something else"}}

    with pytest.raises(
        InstanceError, match=r"1 standby\(s\) of 'app' did not .* task 0_2 on a: it held something else"
    ):
        certify().execute_complete({}, met(a))
