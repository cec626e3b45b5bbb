"""What RocksDB's errors mean to us."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from airflow_provider.errors import StateError, StoreCorruptedError, StoreLockedError

# rocksdict raises plain exceptions: the text is all there is. The first row that fits counts.
_KINDS: Final[tuple[tuple[str, type[StateError]], ...]] = (
    ("While lock file", StoreLockedError),
    ("lock hold by", StoreLockedError),
    ("No locks available", StoreLockedError),
    # Another process had it open, and was writing its list of families, when they were looked up.
    ("Column families not opened", StoreLockedError),
    ("Corruption", StoreCorruptedError),
    ("No such file or directory", StoreCorruptedError),
    ("Invalid argument", StoreCorruptedError),
    ("checksum mismatch", StoreCorruptedError),
)
_MESSAGES: Final[dict[type[StateError], str]] = {
    StoreLockedError: (
        "The store at {path} is open in another living process ({text}): an instance name may run only once on a host. "
        "End the other process, or give this instance another state folder."
    ),
    StoreCorruptedError: (
        "RocksDB refuses the store at {path} ({text}): it is moved aside and restored from its changelog."
    ),
    StateError: "The store at {path} cannot be used ({text}): check the disk's space and permissions.",
}


def typed_error(error: Exception, path: Path) -> StateError:
    """One of our errors for one of RocksDB's.

    Args:
        error: as rocksdict raised it.
        path: the store's folder.
    """
    text = str(error)
    kind = next((kind for sign, kind in _KINDS if sign in text), StateError)
    return kind(_MESSAGES[kind].format(path=path, text=text))
