"""Whether a snapshot may be restored, and whether that pays: pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.changelog.start import start
from airflow_provider.snapshot.manifest import Manifest
from airflow_provider.snapshot.settings import SnapshotSettings

__all__ = ["ChangelogBounds", "not_worth_it", "refusal"]

_CLOCKS_MS = 60_000
"""How far the clocks of two hosts may be apart: a snapshot counts as that much older."""
_REQUEST_S = 0.05
"""What a file costs besides its bytes."""


@dataclass(frozen=True)
class ChangelogBounds:
    """The changelog that a store is to be restored from, as it is now.

    Args:
        application_id: the application.
        task: the task.
        store: the store's name.
        changelog: the topic's name.
        incarnation: the topic's id.
        low: first offset that the log still has.
        high: offset after its last record.
        delete_retention_ms: how long it keeps deletions.
    """

    application_id: str
    task: int
    store: str
    changelog: str
    incarnation: str
    low: int
    high: int
    delete_retention_ms: int


def refusal(manifest: Manifest, now: ChangelogBounds, now_ms: int) -> str | None:
    """Why a snapshot must not be restored; None when it may.

    The rule for its age is that of a store that slept (`airflow_provider.changelog.start`): a deletion may have been
    compacted away since, and the deleted key would come back.

    Args:
        manifest: of the snapshot.
        now: the changelog.
        now_ms: epoch ms of this host.
    """
    theirs = (manifest.application_id, manifest.task, manifest.store)
    ours = (now.application_id, now.task, now.store)
    if theirs != ours:
        return f"it is of application {theirs[0]!r}, task {theirs[1]}, store {theirs[2]!r}"
    if manifest.incarnation != now.incarnation:
        return f"{now.changelog} was deleted and made anew since: its id is another one"
    verdict = start(manifest.position, now.changelog, now.low, now.high, now_ms + _CLOCKS_MS, now.delete_retention_ms)
    return verdict.reason if verdict.fresh else None


def not_worth_it(manifest: Manifest, now: ChangelogBounds, settings: SnapshotSettings) -> str | None:
    """Why reading the whole changelog is predicted to be as fast; None when the snapshot is faster.

    How many records a compacted log holds between two offsets nobody knows. It has one for each key at least, and
    up to about as many again that were not compacted yet; never more than offsets.

    Args:
        manifest: of the snapshot.
        now: the changelog.
        settings: what is assumed of the rates.
    """
    tail = now.high - manifest.offset
    whole = min(now.high - now.low, 2 * manifest.keys + tail)
    replay_s = whole / settings.replay_records_per_s
    snapshot_s = (
        manifest.total_bytes / settings.download_bytes_per_s
        + len(manifest.files) * _REQUEST_S
        + min(tail, whole) / settings.replay_records_per_s
    )
    if snapshot_s < replay_s:
        return None
    return f"it would take {snapshot_s:.1f} s, the changelog {replay_s:.1f} s"
