"""Sends a snapshot: what is new of its files, then its manifest, then it makes room."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider.errors import SnapshotError
from airflow_provider.snapshot.manifest import FileHashes, Manifest, SnapshotFile
from airflow_provider.snapshot.remote import FILES, MANIFESTS, Remote


@dataclass(frozen=True)
class Uploaded:
    """What was sent."""

    manifest: Manifest
    sent: tuple[SnapshotFile, ...]


def upload(folder: Path, manifest: Manifest, remote: Remote, hashes: FileHashes, keep: int) -> Uploaded:
    """Send the files of a store that is not written, and a manifest that names them.

    A crash anywhere leaves a snapshot that does not exist, and files that the next one uses or removes.

    Args:
        folder: a checkpoint of the store.
        manifest: without its files.

    Raises:
        SnapshotError: it could not be sent in time; there is no such snapshot.
    """
    files, manifests = remote.below(FILES), remote.below(MANIFESTS)
    local = {path.name: path for path in sorted(folder.iterdir())}
    hashes.forget_all_but(folder)
    manifest = dataclasses.replace(
        manifest,
        files=tuple(SnapshotFile(name, path.stat().st_size, hashes.of(path)) for name, path in local.items()),
    )
    # 1. the files that are not there whole: a process that died while it sent one left it too short
    there, sent = files.sizes(), list[SnapshotFile]()
    for file in manifest.files:
        if there.get(file.sha256) != file.size and file.sha256 not in {f.sha256 for f in sent}:
            files.put(local[file.name], file.sha256)
            sent.append(file)
    # 2. the manifest: from here on the snapshot exists
    manifests.write(manifest.name, manifest.to_bytes())
    # 3. room: manifests before files, so that no manifest that is there lacks a file
    _make_room(files, manifests, keep)
    return Uploaded(manifest, tuple(sent))


def _make_room(files: Remote, manifests: Remote, keep: int) -> None:
    names = manifests.names()
    surplus = surplus_manifests(names, keep)
    for name in surplus:
        manifests.remove(name)
    kept = []
    for name in set(names) - set(surplus):
        data = manifests.read(name)
        try:
            kept.append(Manifest.from_bytes(data, name))
        except SnapshotError:  # damaged: it refers to nothing that anybody could restore
            continue
    for name in unreferenced_files(files.names(), kept):
        files.remove(name)


def surplus_manifests(names: Iterable[str], keep: int) -> Sequence[str]:
    """The manifests to remove, oldest first.

    Args:
        keep: how many stay. One more does: a reader may have begun with it while a newer one was written.
    """
    taken = sorted(names, key=lambda name: name.partition("-")[2])
    return taken[: max(0, len(taken) - keep - 1)]


def unreferenced_files(files: Collection[str], kept: Iterable[Manifest]) -> Sequence[str]:
    """The files that no manifest needs."""
    needed = {file.sha256 for manifest in kept for file in manifest.files}
    return sorted(set(files) - needed)


def is_abandoned(manifests: Collection[str], now_ms: int, delete_retention_ms: int) -> bool:
    """Whether none of these snapshots may be restored any more, and has not for as long again.

    Args:
        manifests: names of one standby's manifests; without any nothing is known, so it is not.
        delete_retention_ms: how old a snapshot may be when it is restored.
    """
    taken = [name.partition("-")[2].removesuffix(".json") for name in manifests]
    newest = max((int(at) for at in taken if at.isdecimal()), default=now_ms)
    return now_ms - newest > 2 * delete_retention_ms


def clear_abandoned(task: Remote, own: str, now_ms: int, delete_retention_ms: int) -> tuple[str, ...]:
    """Remove what the instances of a task left that took no snapshot for long: the manifests first.

    An instance that comes back just then sends again what it misses, with its next snapshot.

    Args:
        own: the instance that does this; its own are not touched.

    Returns:
        The instances whose snapshots were removed.

    Raises:
        SnapshotError: the storage does not answer.
    """
    removed = []
    for instance in task.names():
        manifests, files = task.below(instance, MANIFESTS), task.below(instance, FILES)
        if instance == own or not is_abandoned(manifests.names(), now_ms, delete_retention_ms):
            continue
        for folder in (manifests, files):
            for name in folder.names():
                with contextlib.suppress(SnapshotError):  # another standby may be at it too
                    folder.remove(name)
        removed.append(instance)
    return tuple(removed)
