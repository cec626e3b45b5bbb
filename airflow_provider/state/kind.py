"""What keeps a store: RocksDB, the worker's memory, or a class of a user's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider.errors import ConfigurationError, StoreOutdatedError
from airflow_provider.state.in_memory import InMemory, InMemoryStore
from airflow_provider.state.kept_store import KeptStore, kept_kind
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.state_store import StateStore, path_of_class
from airflow_provider.state.store import Store

ROCKSDB: Final = "rocksdb"
MEMORY: Final = "memory"

AnyStore = Store | KeptStore
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
            ConfigurationError: it is no kind of store (`path_of_class`).
        """
        if isinstance(given, RocksDBOptions):
            return cls(rocksdb=given)
        if isinstance(given, InMemory):
            return cls(name=MEMORY, memory=given)
        return cls(name=path_of_class(where, given))

    @property
    def of_rocksdb(self) -> bool:
        """Whether it is RocksDB, of which alone there are snapshots."""
        return self.name == ROCKSDB

    def open(self, path: Path, store: str) -> AnyStore:
        """Open the database of a task, with its one store.

        Raises:
            ConfigurationError: the class cannot be imported here.
            StoreOutdatedError: something else kept what lies there, or a newer version of this package.
            StateError: as `Store` and `KeptStore` raise it.
        """
        if not self.of_rocksdb:
            return KeptStore(path, store, self.name, self._maker())
        if (before := kept_kind(path)) is not None:
            raise StoreOutdatedError(
                f"The store at {path} is kept by {before}, and the job says RocksDB: it is moved aside and restored "
                "from its changelog."
            )
        return Store(path, [store], self.rocksdb)

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
        return found  # type: ignore[return-value]  # a class, which path_of_class has looked at
