"""What a snapshot is: written last, so that a snapshot without one does not exist."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import msgspec

from airflow_provider.errors import SnapshotError
from airflow_provider.state.position import Position

__all__ = ["MANIFEST_FORMAT", "Manifest", "SnapshotFile"]

MANIFEST_FORMAT: Final = 1


@dataclass(frozen=True)
class SnapshotFile:
    """One file of the store.

    Args:
        name: in the store's folder.
        size: in bytes.
        sha256: of its content, hexadecimal; it lies under this name.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """A store at a position, and the files that it consists of.

    Args:
        format: `MANIFEST_FORMAT`.
        application_id: the application.
        task: the task.
        store: the store's name.
        changelog: name of its changelog.
        incarnation: the changelog topic's id in its cluster: another one is another topic, whatever its name.
        instance: the standby that it was taken of.
        offset: the store's position: of the next changelog record to apply.
        commit: the last commit record applied, as it lies in the changelog; None before any.
        timestamp_ms: of the last record applied.
        applied_at_ms: when the store stood at the end of its changelog, epoch ms by that instance's clock.
        taken_at_ms: when the snapshot was taken, same clock.
        keys: about how many keys the store has.
        files: the store's files.
    """

    format: int
    application_id: str
    task: int
    store: str
    changelog: str
    incarnation: str
    instance: str
    offset: int
    commit: str | None
    timestamp_ms: int
    applied_at_ms: int
    taken_at_ms: int
    keys: int
    files: tuple[SnapshotFile, ...] = ()

    @property
    def name(self) -> str:
        """Of its file; later ones sort behind earlier ones."""
        return f"{self.offset:020d}-{self.taken_at_ms:015d}.json"

    @property
    def position(self) -> Position:
        """The store's."""
        commit = None if self.commit is None else self.commit.encode()
        return Position(self.offset, commit, self.changelog, self.timestamp_ms, self.applied_at_ms)

    @property
    def total_bytes(self) -> int:
        """Of all files."""
        return sum(file.size for file in self.files)

    def to_bytes(self) -> bytes:
        """JSON, with the checksum of what it says."""
        body = msgspec.json.encode(self)
        return msgspec.json.encode(_Sealed(hashlib.sha256(body).hexdigest(), msgspec.Raw(body)))

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Manifest:
        """The inverse of `to_bytes`.

        Raises:
            SnapshotError: it is damaged, or of a format that this version does not read.
        """
        try:
            sealed = msgspec.json.decode(data, type=_Sealed)
            body = bytes(sealed.manifest)
            if hashlib.sha256(body).hexdigest() != sealed.sha256:
                raise SnapshotError(f"The snapshot's manifest {path} is damaged: its checksum is another one.")
            found = msgspec.json.decode(body, type=_Format).format
            if found != MANIFEST_FORMAT:
                raise SnapshotError(
                    f"The snapshot's manifest {path} has format {found}, this version reads {MANIFEST_FORMAT}."
                )
            return msgspec.json.decode(body, type=cls)
        except msgspec.DecodeError as error:
            raise SnapshotError(f"The snapshot's manifest {path} is damaged ({error}).") from error


class _Sealed(msgspec.Struct):
    sha256: str
    manifest: msgspec.Raw


class _Format(msgspec.Struct):
    format: int
