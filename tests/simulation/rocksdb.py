"""RocksDB itself beside its model, in some schedules: both get every write, and have to answer alike.

The product is answered by both, so what differs ends the schedule. What a crash loses is decided by the model; the real
database is filled anew from it then.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import rocksdict

FOLDER: Final = "real"
"""Below the folder of the model's database, so that it moves with it."""

Families = Mapping[str, Mapping[bytes, bytes]]


class RocksDB:
    """A real database, open.

    Args:
        path: of the model's folder.
        held: what it has to hold, by family.
        anew: whether to begin with an empty folder.
    """

    def __init__(self, path: Path, held: Families, *, anew: bool) -> None:
        self.folder = folder = path / FOLDER
        if anew:
            shutil.rmtree(folder, ignore_errors=True)
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_write_buffer_size(1 << 20)
        fresh = not folder.exists()
        self._db: Any = rocksdict.Rdict(str(folder), options, column_families=dict.fromkeys(held, options))
        self._families = {name: self._db.get_column_family(name) for name in held}
        if fresh:
            self.write([("put", family, key, value) for family, data in held.items() for key, value in data.items()])

    def write(self, batch: Iterable[tuple[str, str, bytes, bytes | None]]) -> None:
        """Apply a batch of the model's operations."""
        real = rocksdict.WriteBatch(raw_mode=True)
        for kind, family, key, value in batch:
            handle = self._db.get_column_family_handle(family)
            if kind == "put":
                real.put(key, value or b"", handle)
            elif kind == "delete":
                real.delete(key, handle)
            else:
                real.delete_range(key, value or b"", handle)
        self._db.write(real)

    def check_get(self, family: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """See whether it has the same values."""
        found = self._families[family].get(list(keys))
        assert found == list(values), f"RocksDB has {found} for {keys}, its model {values}"

    def check_items(self, family: str, begin: bytes, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """See whether it gives the same pairs from a key on."""
        found = list(self._families[family].items(from_key=begin))
        assert found == list(pairs), f"RocksDB gives {found} from {begin!r} on, its model {pairs}"

    def flush(self) -> None:
        """Write everything into tables."""
        with contextlib.suppress(Exception):  # its folder may be gone
            for family in self._families.values():
                family.flush()

    def close(self) -> None:
        """Give its lock back."""
        for family in (*self._families.values(), self._db):
            with contextlib.suppress(Exception):
                family.close()
