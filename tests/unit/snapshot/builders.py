"""A snapshot of task 0_3 of `app`, and the changelog that it is of."""

from __future__ import annotations

from typing import Any

from airflow_provider.common.task_id import TaskId
from airflow_provider.snapshot.download import ChangelogBounds
from airflow_provider.snapshot.manifest import MANIFEST_FORMAT, Manifest, SnapshotFile
from airflow_provider.state.position import ChangelogPosition

HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000


def manifest(
    offset: int = 900_000,
    complete_at_ms: int = NOW_MS - HOUR_MS,
    changelog: str = "app-state-changelog",
    store: str = "state",
    keys: int = 1_000_000,
    **other: Any,
) -> Manifest:
    at = ChangelogPosition(offset=offset, topic_id="topic-id", complete_at_ms=complete_at_ms)
    given: dict[str, Any] = {
        "format": MANIFEST_FORMAT,
        "application_id": "app",
        "task": TaskId(0, 3),
        "instance": "i2",
        "commit": '{"application_id":"app"}',
        "taken_at_ms": NOW_MS - HOUR_MS,
        "changelogs": {changelog: at},
        "keys": {store: keys},
        "files": (SnapshotFile("000007.sst", 50_000_000, "0" * 64),),
    }
    return Manifest(**(given | other))


def bounds(**other: Any) -> ChangelogBounds:
    given: dict[str, Any] = {
        "application_id": "app",
        "task": TaskId(0, 3),
        "store": "state",
        "changelog": "app-state-changelog",
        "topic_id": "topic-id",
        "low": 0,
        "high": 1_000_000,
        "delete_retention_ms": 24 * HOUR_MS,
    }
    return ChangelogBounds(**(given | other))
