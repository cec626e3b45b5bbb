"""Sends a snapshot: what is new of its files, then its manifest, then it makes room."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider.errors import SnapshotError
from airflow_provider.snapshot.hashes import FileHashes
from airflow_provider.snapshot.manifest import Manifest, SnapshotFile
from airflow_provider.snapshot.place import FILES, MANIFESTS
from airflow_provider.snapshot.remote import Remote


@dataclass(frozen=True)
class Uploaded:
    """What was sent.

    Args:
        manifest: as written.
        sent: the files that were not there yet.
    """

    manifest: Manifest
    sent: tuple[SnapshotFile, ...]


def upload(folder: Path, manifest: Manifest, remote: Remote, hashes: FileHashes, keep: int) -> Uploaded:
    """Send the files of a store that is not written, and a manifest that names them.

    A crash anywhere leaves a snapshot that does not exist, and files that the next one uses or removes.

    Args:
        folder: a checkpoint of the store.
        manifest: without its files.
        remote: this standby's own folder.
        hashes: remembers what was read before.
        keep: how many snapshots stay.

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
        names: of one standby's manifests.
        keep: how many stay. One more does: a reader may have begun with it while a newer one was written.
    """
    taken = sorted(names, key=_taken_at)
    return taken[: max(0, len(taken) - keep - 1)]


def unreferenced_files(files: Collection[str], kept: Iterable[Manifest]) -> Sequence[str]:
    """The files that no manifest needs.

    Args:
        files: names of all that lie there.
        kept: all manifests that stay.
    """
    needed = {file.sha256 for manifest in kept for file in manifest.files}
    return sorted(set(files) - needed)


def _taken_at(name: str) -> str:
    return name.partition("-")[2]
