"""What a snapshot is: written last, so that a snapshot without one does not exist."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import SnapshotError
from airflow_provider.state.position import ChangelogPosition, Position

MANIFEST_FORMAT: Final = 3


@dataclass(frozen=True)
class SnapshotFile:
    """One file of the stores' database; it lies under the hexadecimal sha256 of its content."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The stores of a task at a position, and the files that they consist of (``docs/formats.md``)."""

    format: int
    application_id: str
    task: TaskId
    instance: str
    changelogs: Mapping[str, ChangelogPosition]
    commit: str | None
    taken_at_ms: int
    keys: Mapping[str, int]
    files: tuple[SnapshotFile, ...] = ()

    @property
    def name(self) -> str:
        """Of its file; later ones sort behind earlier ones."""
        return f"{self.offset:020d}-{self.taken_at_ms:015d}.json"

    @property
    def offset(self) -> int:
        """How far the task had come: the sum of its changelogs' offsets, that of its changelog where it has one."""
        return sum(at.offset for at in self.changelogs.values())

    @property
    def position(self) -> Position:
        """The stores'."""
        return Position(changelogs=self.changelogs, commit=None if self.commit is None else self.commit.encode())

    @property
    def total_bytes(self) -> int:
        """Of all files."""
        return sum(file.size for file in self.files)

    def to_bytes(self) -> bytes:
        """JSON, with the checksum of what it says."""
        body = to_json(self)
        return msgspec.json.encode(_Sealed(hashlib.sha256(body).hexdigest(), msgspec.Raw(body)))

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Manifest:
        """The inverse of `to_bytes`.

        Raises:
            SnapshotError: it is damaged, or of a format that this version does not read.
        """
        try:
            sealed = from_json(data, _Sealed)
            body = bytes(sealed.manifest)
            if hashlib.sha256(body).hexdigest() != sealed.sha256:
                raise SnapshotError(f"The snapshot's manifest {path} is damaged: its checksum differs.")
            found = from_json(body, _Format).format
            if found != MANIFEST_FORMAT:
                raise SnapshotError(
                    f"The snapshot's manifest {path} has format {found}, this version reads {MANIFEST_FORMAT}."
                )
            return from_json(body, cls)
        except msgspec.DecodeError as error:
            raise SnapshotError(f"The snapshot's manifest {path} is damaged ({error}).") from error


class _Sealed(msgspec.Struct):
    sha256: str
    manifest: msgspec.Raw


class _Format(msgspec.Struct):
    format: int


def sha256_of(path: Path) -> str:
    """Of a file's content, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FileHashes:
    """Remembers them: RocksDB never changes an SST file, and a hard link has its inode, size and time."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], str] = {}

    def of(self, path: Path) -> str:
        """The checksum, computed once."""
        stat = path.stat()
        key = stat.st_ino, stat.st_size, stat.st_mtime_ns
        if path.suffix != ".sst":
            return sha256_of(path)
        if key not in self._known:
            self._known[key] = sha256_of(path)
        return self._known[key]

    def forget_all_but(self, folder: Path) -> None:
        """Keep what lies in a folder."""
        there = {(s.st_ino, s.st_size, s.st_mtime_ns) for s in (path.stat() for path in folder.iterdir())}
        self._known = {key: value for key, value in self._known.items() if key in there}
