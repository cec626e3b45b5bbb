"""Files that only their user may read, the end of a long one, and the size of a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from airflow_provider.errors import ConfigurationError

PRIVATE_UMASK: Final = 0o077
"""What a process starts with whose files nobody else may read."""

_MAX_LINKS: Final = 40


def check_path(path: Path) -> None:
    """Refuse a path on which another user could put something else in place of what lies there.

    Each part that exists, links included, has to belong to this user or to root. A folder that others may write to
    needs the sticky bit, as ``/tmp`` has it. The group may write where it is the user's own (of the same number) or
    root's.

    Args:
        path: absolute; its last parts need not exist.

    Raises:
        ConfigurationError: a part can be replaced by another user; or the path is not absolute.
    """
    if not path.is_absolute():
        raise ConfigurationError(f"Found the path {str(path)!r}, expected an absolute one.")
    # In a user namespace even the root folder belongs to another number: who owns that owns everything.
    trusted = {0, os.geteuid(), Path("/").stat().st_uid}
    for part, found in _parts(path):
        if found.st_uid not in trusted:
            raise ConfigurationError(
                f"{part}, on the way to {path}, belongs to the user with id {found.st_uid}, who could read or replace "
                "what is kept there: name a folder of your own, or let root or this user own that one."
            )
        if stat.S_ISDIR(found.st_mode) and not found.st_mode & stat.S_ISVTX and _others_may_write(found):
            raise ConfigurationError(
                f"{part}, on the way to {path}, can be written to by other users (mode "
                f"{stat.S_IMODE(found.st_mode):o}, without the sticky bit), who could replace what is kept there: "
                "take that right away (chmod go-w), set the sticky bit (chmod +t), or name another folder."
            )


def make_private_folder(path: Path) -> None:
    """Make a folder, and what is missing above it, for this user alone; one that exists is checked and left as it is.

    Args:
        path: absolute.

    Raises:
        ConfigurationError: see `check_path`.
        OSError: it cannot be made.
    """
    check_path(path)
    missing = []
    folder = path
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = folder.parent
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    # Whatever appeared between the look and the making is looked at as well.
    check_path(path)
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is not a folder")


def create_private_file(path: Path, content: bytes = b"") -> None:
    """Write a new file that this user alone may read.

    Raises:
        FileExistsError: there is a file, or a link, of that name.
        OSError: it cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _parts(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every existing part of a path from the root on, and every link that is followed on the way."""
    current, pending, links = Path("/"), list(path.parts[1:]), 0
    yield current, current.lstat()
    while pending:
        name = pending.pop(0)
        if name == "..":
            current = current.parent
            continue
        try:
            found = (current / name).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        yield current / name, found
        if not stat.S_ISLNK(found.st_mode):
            current /= name
            continue
        links += 1
        if links > _MAX_LINKS:
            raise ConfigurationError(f"{path} leads through more than {_MAX_LINKS} links: name the folder itself.")
        target = (current / name).readlink()
        pending = [*target.parts[1:], *pending] if target.is_absolute() else [*target.parts, *pending]
        current = Path("/") if target.is_absolute() else current


def _others_may_write(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and found.st_gid not in (0, os.geteuid())


def file_end(path: Path, max_bytes: int = 64 << 10) -> str:
    """The last of a file's text.

    Args:
        path: the file, in UTF-8; what is not is replaced.
        max_bytes: how much of it to read; the first line may be cut off.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - max_bytes))
        return file.read().decode("utf-8", "replace")


def folder_bytes(folder: Path) -> int:
    """Size of all files in a folder and below it, in bytes; files that vanish during the count add nothing.

    0 for a folder that is not there.
    """
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total
