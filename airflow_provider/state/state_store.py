"""What a store of a user's own has to do: the state of one task, as bytes by bytes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from airflow_provider.errors import ConfigurationError


class StateStore(Protocol):
    """Keeps the pairs of one task, and the position that they stand for.

    The changelog is the truth, and this is a copy of it: it may lose what was written last, or all. What it must not do
    is to hold one write in part, or the pairs of one write with the position of another.

    One thread at a time calls it, and not always the same one. One process at a time has it open: the package keeps the
    lock. An error that it raises while it is opened or read has the store moved aside and restored; one from `write`
    has it closed and opened again, from what it holds then.

    `airflow_provider.testing.check_store` finds what such a store does wrong.

    Args:
        folder: there, and its own. What it writes outside of it is not moved, counted or removed with it.
    """

    def __init__(self, folder: Path) -> None: ...

    def position(self) -> bytes | None:
        """The position of the last `write` that it holds; None where it holds none, and then no pair either."""

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """The values of keys, in their order; None where there is none. A value may be empty."""

    def range(self, begin: bytes, end: bytes | None, limit: int) -> Sequence[tuple[bytes, bytes]]:
        """The first pairs from key `begin` (included) to `end` (excluded), in the order of the keys' bytes.

        Args:
            end: None for all that follow.
            limit: how many at the most. Fewer come only where there are no more.
        """

    def write(self, changes: Mapping[bytes, bytes | None], position: bytes) -> None:
        """Apply changes and the position after them, all or nothing, whenever the process is killed.

        They need not be on the disk when it returns; but a later write must not be there without an earlier one.

        Args:
            changes: by key the new value; None deletes, also what is not there.
        """

    def close(self) -> None:
        """Nothing else is called afterwards. A process that is killed does not call it."""


_METHODS: Final = ("position", "get", "range", "write", "close")


def path_of_class(where: str, given: object) -> str:
    """How a class is found again in another process: ``module:Class``.

    Args:
        where: what was given it, for the message.

    Raises:
        ConfigurationError: it is no class, cannot be imported, or lacks a method of `StateStore`.
    """
    if not isinstance(given, type):
        raise ConfigurationError(
            f"{where}{given!r}: give RocksDBOptions(), InMemory() or a class of your own, as StateStore describes it."
        )
    lacking = [name for name in _METHODS if not inspect.isroutine(getattr(given, name, None))]
    if lacking:
        raise ConfigurationError(
            f"{where}{given.__name__}, which has no {' and no '.join(f'{name}()' for name in lacking)}: a class that "
            f"keeps a store has {', '.join(_METHODS)}, as StateStore describes them."
        )
    if given.__module__ == "__main__" or "<locals>" in given.__qualname__:
        raise ConfigurationError(
            f"{where}{given.__name__}, which other processes cannot import ({given.__module__}.{given.__qualname__}): "
            "write it at the top of a module that every instance has, not in the job file."
        )
    return f"{given.__module__}:{given.__qualname__}"
