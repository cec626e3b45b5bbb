"""What befalls the store of one task: done to its files, on the host where they lie, while no call uses them."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Final

from airflow_provider.streaming.worker.tasks.handover import release_store

log = logging.getLogger(__name__)

_DAMAGED_BYTES: Final = 4096


def lose_store(path: Path) -> None:
    """Remove its files at once, under the worker that has it open, which finds that with its next call.

    Args:
        path: its folder.

    Raises:
        OSError: the folder cannot be changed.
    """
    gone = path.with_name(f"{path.name}.lost")
    shutil.rmtree(gone, ignore_errors=True)
    path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
    log.warning("a drill removed %s", path)


def corrupt_store(path: Path) -> None:
    """Flip the bits of the end of its largest SST file, with its index and its footer, which opening it finds at once.

    So its worker is asked to close it before: the next call opens it again.

    Args:
        path: its folder.

    Raises:
        OSError: the folder cannot be changed.
    """
    release_store(path)
    tables = [*path.glob("*.sst")] or [*path.glob("MANIFEST-*")]
    victim = max(tables, key=lambda file: (file.stat().st_size, file.name))
    size = victim.stat().st_size
    with victim.open("r+b") as file:
        file.seek(max(0, size - _DAMAGED_BYTES))
        at, data = file.tell(), file.read()
        file.seek(at)
        file.write(bytes(byte ^ 0xFF for byte in data))
    log.warning("a drill damaged the last %d bytes of %s", len(data), victim)
