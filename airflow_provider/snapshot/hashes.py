"""The checksums of a store's files."""

from __future__ import annotations

import hashlib
from pathlib import Path


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
