"""Whether a snapshot may be restored, and whether that pays: pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.changelog.completeness import find_resume_point
from airflow_provider.common.task_id import TaskId
from airflow_provider.snapshot.manifest import Manifest
from airflow_provider.snapshot.settings import SnapshotSettings

_CLOCKS_MS = 60_000
"""How far the clocks of two hosts may be apart: a snapshot counts as that much older."""
_REQUEST_S = 0.05
"""What a file costs besides its bytes."""


@dataclass(frozen=True, kw_only=True)
class ChangelogBounds:
    """The changelog that a store is to be restored from, as it is now.

    Args:
        changelog: the topic's name.
        low: first offset that the log still has.
        high: offset after its last record.
        delete_retention_ms: how long it keeps deletions.
    """

    application_id: str
    task: TaskId
    store: str
    changelog: str
    topic_id: str
    low: int
    high: int
    delete_retention_ms: int


def refusal(manifest: Manifest, now: ChangelogBounds, now_ms: int) -> str | None:
    """Why a snapshot must not be restored; None when it may.

    The rule for its age is that of an old store (`airflow_provider.changelog.completeness`): a deletion may have
    been compacted away since, and the deleted key would come back.

    Args:
        manifest: of the snapshot.
        now_ms: epoch ms of this host.
    """
    theirs, at = (manifest.application_id, manifest.task), manifest.changelogs.get(now.changelog)
    if theirs != (now.application_id, now.task):
        return f"it is of application {theirs[0]!r}, task {theirs[1]}"
    if now.store not in manifest.keys or at is None:
        stores, changelogs = (", ".join(map(repr, names)) for names in (manifest.keys, manifest.changelogs))
        return f"it is of store {stores or 'none'}, applied from {changelogs or 'nothing'}"
    if at.topic_id != now.topic_id:
        return f"{now.changelog} was deleted and created again since: its topic id differs"
    verdict = find_resume_point(
        manifest.position,
        now.changelog,
        now.low,
        now.high,
        now_ms + _CLOCKS_MS,
        now.delete_retention_ms,
        holds_data=True,
    )
    return verdict.reason if verdict.fresh else None


def not_worth_it(manifest: Manifest, now: ChangelogBounds, settings: SnapshotSettings) -> str | None:
    """Why reading the whole changelog is predicted to be as fast; None when the snapshot is faster.

    How many records a compacted log holds between two offsets is not known. It has one for each key at least, and
    up to about as many again that were not compacted yet; never more than offsets.

    Args:
        manifest: of a snapshot that may be restored.
        settings: what is assumed of the rates.
    """
    tail = now.high - manifest.changelogs[now.changelog].offset
    whole = min(now.high - now.low, 2 * manifest.keys[now.store] + tail)
    replay_s = whole / settings.replay_records_per_s
    snapshot_s = (
        manifest.total_bytes / settings.download_bytes_per_s
        + len(manifest.files) * _REQUEST_S
        + min(tail, whole) / settings.replay_records_per_s
    )
    if snapshot_s < replay_s:
        return None
    return f"it would take {snapshot_s:.1f} s, the changelog {replay_s:.1f} s"
