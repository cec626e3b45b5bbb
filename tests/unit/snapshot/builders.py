"""A snapshot of task 3 of `app`, and the changelog that it is of."""

from __future__ import annotations

from typing import Any

from airflow_provider.snapshot.choice import ChangelogBounds
from airflow_provider.snapshot.manifest import MANIFEST_FORMAT, Manifest, SnapshotFile

HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000


def manifest(**other: Any) -> Manifest:
    given: dict[str, Any] = {
        "format": MANIFEST_FORMAT,
        "application_id": "app",
        "task": 3,
        "store": "state",
        "changelog": "app-state-changelog",
        "incarnation": "topic-id",
        "instance": "i2",
        "offset": 900_000,
        "commit": '{"application_id":"app"}',
        "timestamp_ms": NOW_MS - HOUR_MS,
        "applied_at_ms": NOW_MS - HOUR_MS,
        "taken_at_ms": NOW_MS - HOUR_MS,
        "keys": 1_000_000,
        "files": (SnapshotFile("000007.sst", 50_000_000, "0" * 64),),
    }
    return Manifest(**(given | other))


def bounds(**other: Any) -> ChangelogBounds:
    given: dict[str, Any] = {
        "application_id": "app",
        "task": 3,
        "store": "state",
        "changelog": "app-state-changelog",
        "incarnation": "topic-id",
        "low": 0,
        "high": 1_000_000,
        "delete_retention_ms": 24 * HOUR_MS,
    }
    return ChangelogBounds(**(given | other))
