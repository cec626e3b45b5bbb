"""A range of a changelog's offsets, as SST files."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

__all__ = ["SstRange", "split"]


@dataclass(frozen=True, kw_only=True)
class SstRange:
    """What a store has to ingest to come from one offset to another.

    Args:
        store: its name.
        begin: the position that a store needs before.
        end: the position that it has afterwards.
        files: paths of SST files, to be ingested in this order: later ones win.
        records: how many records the range held.
        record_bytes: size of their keys and values together.
        commit: the last commit record in the range; None when there was none.
        timestamp_ms: of the last record, epoch ms; 0 when there was none.
        uncommitted_from: of the first change behind the last commit record, as of `ChangelogBatch`.
    """

    store: str
    begin: int
    end: int
    files: tuple[str, ...]
    records: int
    record_bytes: int
    commit: str | None
    timestamp_ms: int
    uncommitted_from: int | None = None


def split(begin: int, end: int, offsets: int) -> list[tuple[int, int]]:
    """Cut a range of offsets into consecutive ones of at most `offsets` each, of about the same size."""
    parts = -(-(end - begin) // offsets)
    edges = [begin + (end - begin) * part // parts for part in range(parts + 1)] if parts > 0 else []
    return list(pairwise(edges))
