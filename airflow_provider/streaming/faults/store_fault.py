"""A drill's fault in the store of one task."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Final

__all__ = ["StoreFault", "StoreFaultKind", "inject_store_fault"]

log = logging.getLogger(__name__)


class StoreFaultKind(Enum):
    """What befalls a store."""

    LOST = "lost"
    """Its files are removed, under the process that has it open."""
    CORRUPTED = "corrupted"
    """The end of its largest SST file is damaged; found when it is opened, so no process may have it open."""

    @property
    def closes(self) -> bool:
        """Whether the store is closed before, and opened again after it."""
        return self is StoreFaultKind.CORRUPTED


@dataclass(frozen=True, kw_only=True)
class StoreFault:
    """What a drill asks of the worker that holds a task.

    Args:
        id: of the drill's fault; done once.
        kind: what befalls the store.
        generation: done only while no newer assignment was read: a copy that was promoted since is the only one left.
        done: whether a status has told that it was: nothing befalls the store any more, whatever is noted beside it.
    """

    id: str
    kind: StoreFaultKind
    generation: int
    done: bool = False


def inject_store_fault(kind: StoreFaultKind, path: Path) -> None:
    """Do it to the files of a store.

    Args:
        kind: what befalls it.
        path: its folder.

    Raises:
        OSError: the folder cannot be changed.
    """
    _DEEDS[kind](path)


def _lose(path: Path) -> None:
    """At once, whatever RocksDB writes there in the meantime."""
    gone = path.with_name(f"{path.name}.lost")
    shutil.rmtree(gone, ignore_errors=True)
    path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
    log.warning("a drill removed %s", path)


def _damage(path: Path) -> None:
    """Flip the bits of the end of a file, with its index and its footer, where a damage is found at once."""
    tables = [*path.glob("*.sst")] or [*path.glob("MANIFEST-*")]
    victim = max(tables, key=lambda file: (file.stat().st_size, file.name))
    size = victim.stat().st_size
    with victim.open("r+b") as file:
        file.seek(max(0, size - _DAMAGED_BYTES))
        at, data = file.tell(), file.read()
        file.seek(at)
        file.write(bytes(byte ^ 0xFF for byte in data))
    log.warning("a drill damaged the last %d bytes of %s", len(data), victim)


_DAMAGED_BYTES: Final = 4096

_DEEDS: Final[Mapping[StoreFaultKind, Callable[[Path], None]]] = MappingProxyType(
    {StoreFaultKind.LOST: _lose, StoreFaultKind.CORRUPTED: _damage}
)
