from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.snapshot.download import not_worth_it, refusal
from airflow_provider.snapshot.manifest import SnapshotFile
from airflow_provider.snapshot.settings import SnapshotSettings
from tests.unit.snapshot.builders import HOUR_MS, NOW_MS, bounds, manifest

SETTINGS = SnapshotSettings("file:///x", download_bytes_per_s=100_000_000, replay_records_per_s=500_000)


def test_fresh_snapshot_of_this_changelog_may_be_restored() -> None:
    assert refusal(manifest(), bounds(), NOW_MS) is None


@pytest.mark.parametrize(
    ("theirs", "ours", "why"),
    [
        pytest.param({"application_id": "other"}, {}, "application 'other'", id="another-application"),
        pytest.param({"task": TaskId(0, 4)}, {}, "task 0_4", id="another-task"),
        pytest.param({"store": "other"}, {}, "store 'other'", id="another-store"),
        pytest.param({"changelog": "other"}, {}, "'other'", id="another-changelog"),
        pytest.param({}, {"topic_id": "later"}, "created again", id="changelog-recreated"),
        pytest.param({}, {"high": 899_999}, "past the changelog's end", id="past-the-end"),
        pytest.param({}, {"low": 900_001}, "before the changelog's start", id="before-the-start"),
        pytest.param({"complete_at_ms": NOW_MS - 24 * HOUR_MS}, {}, "delete.retention.ms", id="older-than-deletions"),
        pytest.param(
            {"complete_at_ms": NOW_MS - 24 * HOUR_MS + 30_000}, {}, "delete.retention.ms", id="clocks-may-differ"
        ),
    ],
)
def test_snapshot_is_refused(theirs: dict[str, Any], ours: dict[str, Any], why: str) -> None:
    reason = refusal(manifest(**theirs), bounds(**ours), NOW_MS)

    assert reason is not None
    assert why in reason


def test_position_at_either_bound_may_be_restored() -> None:
    assert refusal(manifest(), bounds(low=900_000, high=900_000), NOW_MS) is None


@pytest.mark.parametrize(
    ("theirs", "ours", "worth_it"),
    [
        # 1 M records are 2 s; the file is 0.55 s, its tail 0.2 s
        pytest.param({}, {}, True, id="small-beside-its-changelog"),
        pytest.param({"files": (SnapshotFile("a", 200_000_000, ""),)}, {}, False, id="larger-than-it-saves"),
        pytest.param({"files": tuple([SnapshotFile("a", 1, "")] * 50)}, {}, False, id="many-small-files"),
        pytest.param({"offset": 200_000}, {}, False, id="most-of-it-is-to-be-read-anyway"),
        pytest.param({"keys": 100_000}, {"high": 950_000}, False, id="compacted-to-few-records"),
        pytest.param({"offset": 1_000_000_000, "keys": 2_000_000}, {"high": 1_000_000_010}, True, id="many-offsets"),
    ],
)
def test_snapshot_is_worth_it(theirs: dict[str, Any], ours: dict[str, Any], worth_it: bool) -> None:
    reason = not_worth_it(manifest(**theirs), bounds(**ours), SETTINGS)

    assert (reason is None) is worth_it
