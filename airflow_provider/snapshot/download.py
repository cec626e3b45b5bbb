"""Fetches the newest snapshot that may be restored, and is worth it, and is whole."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider.changelog.completeness import find_resume_point
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import SnapshotError
from airflow_provider.snapshot.manifest import Manifest, SnapshotFile, sha256_of
from airflow_provider.snapshot.remote import FILES, MANIFESTS, Remote
from airflow_provider.snapshot.settings import SnapshotSettings

_CLOCKS_MS = 60_000
"""How far the clocks of two hosts may be apart: a snapshot counts as that much older."""
_REQUEST_S = 0.05
"""What a file costs besides its bytes."""


@dataclass(frozen=True, kw_only=True)
class ChangelogBounds:
    """The changelog that a store is to be restored from, as it is now."""

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


_AT_ONCE: Final = 4


@dataclass(frozen=True)
class Downloaded:
    """What came of it.

    Args:
        manifest: of the snapshot that lies in the folder now; None when there is none.
    """

    manifest: Manifest | None
    path: str | None
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        if self.manifest is None:
            return f"the changelog ({'; '.join(self.reasons) or 'there is no snapshot'})"
        skipped = f" ({'; '.join(self.reasons)})" if self.reasons else ""
        return f"the snapshot of {self.manifest.instance} at {self.manifest.offset}{skipped}"


def download(
    remote: Remote,
    now: ChangelogBounds,
    now_ms: int,
    settings: SnapshotSettings,
    folder: Path,
    not_these: Collection[str] = (),
) -> Downloaded:
    """Put the files of the best snapshot into `folder`, each checked; newest first, the next older when one is bad.

    Never raises for what is wrong with a snapshot: the changelog restores the store.

    Args:
        folder: becomes the store's folder; what lies there is removed. Files on their way lie in folders beside it.
        not_these: paths of manifests that were tried before.
    """
    reasons: list[str] = []
    try:
        for place, name in _newest_first(remote):
            path = f"{place.path}/{MANIFESTS}/{name}"
            if path in not_these:
                continue
            try:
                manifest = Manifest.from_bytes(place.below(MANIFESTS).read(name), path)
                if (why := refusal(manifest, now, now_ms)) is None:
                    if (why := not_worth_it(manifest, now, settings)) is not None:
                        reasons.append(f"{path}: {why}")
                        break  # an older one is worth less
                    _fetch(place.below(FILES), manifest, folder)
                    return Downloaded(manifest, path, tuple(reasons))
                reasons.append(f"{path}: {why}")
            except SnapshotError as error:
                reasons.append(str(error))
    except SnapshotError as error:
        reasons.append(str(error))
    shutil.rmtree(folder, ignore_errors=True)
    return Downloaded(None, None, tuple(reasons))


def _newest_first(remote: Remote) -> Iterator[tuple[Remote, str]]:
    found = []
    for instance in remote.names():
        place = remote.below(instance)
        found += [(name, place) for name in place.below(MANIFESTS).names()]
    for name, place in sorted(found, key=lambda at: at[0], reverse=True):
        yield place, name


def _fetch(files: Remote, manifest: Manifest, folder: Path) -> None:
    # A fetch that was given up goes on in its thread, and may write at any time: no folder is used twice.
    incoming = folder.with_name(uuid.uuid4().hex)
    incoming.mkdir(parents=True)
    try:
        _fetch_into(incoming, files, manifest)
        shutil.rmtree(folder, ignore_errors=True)
        incoming.rename(folder)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def _fetch_into(folder: Path, files: Remote, manifest: Manifest) -> None:
    def fetch(file: SnapshotFile) -> None:
        if Path(file.name).name != file.name:
            raise SnapshotError(f"The snapshot in {files.path} names a file {file.name!r}, expected a plain name.")
        local = folder / file.name
        files.get(file.sha256, local, file.size)
        size = local.stat().st_size
        if size == file.size and sha256_of(local) == file.sha256:
            return
        if size == file.size:
            # Whole, and not what its name says: the standby that would use it again has to send it again.
            with contextlib.suppress(SnapshotError):
                files.remove(file.sha256)
        raise SnapshotError(f"{files.path}/{file.sha256} ({file.name}) is damaged: its size or checksum differs.")

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(fetch, file) for file in manifest.files]:
            done.result()
