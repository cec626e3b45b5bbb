"""What keeps a store: RocksDB, the worker's memory, or a class of a user's."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider.common.store_signature import ROCKSDB
from airflow_provider.errors import ConfigurationError, StoreOutdatedError
from airflow_provider.state.in_memory import InMemory, InMemoryStore
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.state_store import GuardedStore, StateStore, kept_by
from airflow_provider.state.store import Store

MEMORY: Final = "memory"
_METHODS: Final = ("position", "get", "range", "write", "close")

AnyStore = Store | GuardedStore
"""An open store of a task: both answer the same calls."""


@dataclass(frozen=True, kw_only=True)
class StoreKind:
    """What keeps a store, as plain values.

    Args:
        name: ``rocksdb``, ``memory``, or ``module:Class`` of a `StateStore`.
        rocksdb: the settings, of RocksDB alone.
        memory: the same of one in memory.
    """

    name: str = ROCKSDB
    rocksdb: RocksDBOptions = field(default_factory=RocksDBOptions)
    memory: InMemory = field(default_factory=InMemory)

    @classmethod
    def of(cls, where: str, given: object) -> StoreKind:
        """From what a user says.

        Args:
            where: what was given it, for the message.

        Raises:
            ConfigurationError: it is no class, cannot be imported, or lacks a method of `StateStore`.
        """
        if isinstance(given, RocksDBOptions):
            return cls(rocksdb=given)
        if isinstance(given, InMemory):
            return cls(name=MEMORY, memory=given)
        return cls(name=_path_of(where, given))

    @property
    def of_rocksdb(self) -> bool:
        """Whether it is RocksDB, of which alone there are snapshots."""
        return self.name == ROCKSDB

    def open(self, path: Path, store: str) -> AnyStore:
        """Open the database of a task, with its one store.

        Raises:
            ConfigurationError: the class cannot be imported here.
            StoreOutdatedError: something else kept what lies there, or a newer version of this package.
            StateError: as `Store` and `GuardedStore` raise it.
        """
        if (before := kept_by(path)) not in (None, self.name):
            raise StoreOutdatedError(
                f"The store at {path} is kept by {before}, and the job says {self.name}: it is moved aside and "
                "restored from its changelog."
            )
        if self.of_rocksdb:
            return Store(path, [store], self.rocksdb)
        return GuardedStore(path, store, self.name, self._maker())

    def _maker(self) -> Callable[[Path], StateStore]:
        if self.name == MEMORY:
            return lambda _: InMemoryStore(self.memory)
        module, _, name = self.name.partition(":")
        try:
            found = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigurationError(
                f"The class {self.name} of a store cannot be imported here ({error}): install its module in the Python "
                "environment of every instance."
            ) from error
        return found  # type: ignore[return-value]  # a class, which `of` has looked at


def _path_of(where: str, given: object) -> str:
    """How a class is found again in another process: ``module:Class``."""
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
