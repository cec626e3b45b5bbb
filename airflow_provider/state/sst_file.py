"""A SST file, made outside any store, for a store to ingest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rocksdict import SstFileWriter

from airflow_provider.state.options import RocksDBOptions

__all__ = ["write_sst"]


def write_sst(path: Path, changes: Mapping[bytes, bytes | None], options: RocksDBOptions) -> None:
    """Write changes as one SST file.

    Args:
        path: of the file; its folder exists.
        changes: the last value of each key, at least one; None deletes it from what the store holds below.
        options: of the store that is to ingest it.

    Raises:
        OSError: the disk does not take it.
    """
    writer = SstFileWriter(options.to_options(bulk=True))
    try:
        writer.open(str(path))
        for key in sorted(changes):
            value = changes[key]
            if value is None:
                del writer[key]
            else:
                writer[key] = value
        writer.finish()
    except Exception as error:
        raise OSError(f"{path} cannot be written: {error}") from error
