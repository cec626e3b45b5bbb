"""A comparison: the records that two programs get, and what has to come of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["BATCH", "PARTITIONS", "Case", "Record", "slices"]

PARTITIONS = 4
BATCH = 50_000
"""Records that are made and sent together."""

Record = dict[str, Any]
"""As `Producer.produce_batch` takes it."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One comparison.

    Args:
        job: the file of our job; it has ``job_of(application_id, ...)`` and topics that begin with that id.
        program: the class of Kafka Streams' side.
        source: the last part of the source's name.
        sink: the same of the sink.
        internal: the last part of the name of the internal topic of ours, and of theirs; None where there is none.
        batches: the source's records, given the first and the one after the last.
        records: how many the source has.
        units: what is counted of so many first records: words, say.
        table: the last part of the name, and all records, of a topic that both programs read before anything else.
        judge: is given the side, 0 for ours, 1 for Kafka Streams, 2 for Flink, and its sink's records; raises where
            they are wrong.
    """

    job: Path
    program: str
    source: str
    sink: str
    internal: tuple[str | None, str | None]
    batches: Callable[[int, int], Iterator[Sequence[Record]]]
    records: int
    units: Callable[[int], int]
    judge: Callable[[int, Iterable[tuple[bytes, bytes]]], None]
    table: tuple[str, Callable[[], Iterator[Sequence[Record]]]] | None = None


def slices(begin: int, end: int) -> Iterator[slice]:
    """Of at most `BATCH` records each."""
    for at in range(begin, end, BATCH):
        yield slice(at, min(at + BATCH, end))
