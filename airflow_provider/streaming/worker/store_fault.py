"""A drill's fault in the store of one task."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Final

__all__ = ["StoreFault", "StoreFaultKind", "inject_store_fault"]


class StoreFaultKind(Enum):
    """What befalls a store."""

    LOST = "lost"
    """Its files are removed, under the process that has it open."""


@dataclass(frozen=True, kw_only=True)
class StoreFault:
    """What a drill asks of the worker that holds a task.

    Args:
        id: of the drill's fault; done once.
        kind: what befalls the store.
        generation: done only while no newer assignment was read: a copy that was promoted since is the only one left.
    """

    id: str
    kind: StoreFaultKind
    generation: int


def inject_store_fault(kind: StoreFaultKind, path: Path) -> None:
    """Do it to the files of a store.

    Args:
        kind: what befalls it.
        path: its folder.

    Raises:
        OSError: the folder cannot be changed.
    """
    _DEEDS[kind](path)


_DEEDS: Final[Mapping[StoreFaultKind, Callable[[Path], None]]] = MappingProxyType({StoreFaultKind.LOST: shutil.rmtree})
