"""At most one supervised process of an instance on a host."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from airflow_provider.common.files import create_private_file, make_private_folder
from airflow_provider.errors import ConfigurationError, InstanceError

_LOOK_S: Final = 0.2
_PASSING: Final = frozenset({errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOSPC})
"""What keeps a folder from being written that may be over by the next try."""


class InstanceLock:
    """Held by the process that keeps an instance, until it ends, however it ends.

    Args:
        run_dir: in which its launches have their folders.
    """

    def __init__(self, run_dir: Path, application_id: str, instance: str) -> None:
        # A character that no name may have.
        self._path = run_dir / f"{application_id}@{instance}.lock"
        self._instance = instance

    @contextmanager
    def held(self, within_s: float) -> Iterator[None]:
        """Hold it within the block.

        Args:
            within_s: how long another process may take to let go of it.

        Raises:
            InstanceError: another process keeps the instance.
            ConfigurationError: the folder cannot be written, or another user could replace the file.
        """
        try:
            make_private_folder(self._path.parent)
            with contextlib.suppress(FileExistsError):
                create_private_file(self._path)
            file = self._path.open("r+")
        except OSError as error:
            text = f"The run folder {self._path.parent} cannot be written ({error})"
            if error.errno in _PASSING:
                raise InstanceError(f"{text}: make room for it.") from error
            raise ConfigurationError(f"{text}: let this user own it, or name another one (--run-dir).") from error
        deadline = time.monotonic() + within_s
        with file:
            while not _lock(file.fileno()):
                if time.monotonic() > deadline:
                    raise InstanceError(
                        f"{self._instance!r} is kept by process {file.read() or 'unknown'} of this host: let its "
                        "supervisor stop that first, so that two never run at once."
                    )
                time.sleep(_LOOK_S)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def is_held(self) -> bool:
        """Whether a process keeps the instance."""
        try:
            with self._path.open("r+") as file:
                return not _lock(file.fileno())
        except OSError:
            return False


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
