from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.placement.ranking import rank_copies
from airflow_provider.control.records.status import RestorePhase
from tests.builders import active, instance, standby

COLD = {"restore_phase": RestorePhase.CHANGELOG}


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param({**COLD, "error": "no room"}, {"position": None}, id="any-copy-before-none"),
        pytest.param({"error": "no room"}, COLD, id="warm-before-cold"),
        pytest.param({"lag_records": 900}, {"error": "no room"}, id="without-error-before-with"),
        pytest.param({"lag_records": 1}, {"lag_records": 2, "certified_position": 8}, id="smaller-lag-first"),
        pytest.param({**COLD, "lag_records": 9}, {**COLD, "lag_records": None}, id="known-lag-before-unknown"),
        pytest.param({"certified_position": 10}, {}, id="certified-before-others"),
    ],
)
def test_better_copy_comes_first(better: dict[str, Any], worse: dict[str, Any]) -> None:
    statuses = {"a": instance("a", standby(0, **worse)), "b": instance("b", standby(0, **better))}

    assert rank_copies(TaskId(0, 0), ["a", "b"], statuses, {}) == ["b", "a"]


def test_load_decides_between_equal_lags_before_certification() -> None:
    statuses = {"a": instance("a", standby(0, certified_position=10)), "b": instance("b", standby(0))}

    assert rank_copies(TaskId(0, 0), ["a", "b"], statuses, {"a": 1}) == ["b", "a"]


def test_name_decides_last() -> None:
    statuses = {name: instance(name, standby(0)) for name in "cab"}

    assert rank_copies(TaskId(0, 0), statuses, statuses, {}) == ["a", "b", "c"]


def test_active_and_unknown_instances_hold_no_standby_copy() -> None:
    statuses = {"a": instance("a", active(0, position=10)), "c": instance("c", standby(0))}

    assert rank_copies(TaskId(0, 0), ["a", "b", "c"], statuses, {"a": 1}) == ["c", "b", "a"]
