"""A comparison: the records that two programs get, and what has to come of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

__all__ = ["BATCH", "PARTITIONS", "Case", "Record", "Side", "slices"]

PARTITIONS = 4
BATCH = 50_000
"""Records that are made and sent together."""

Record = dict[str, Any]
"""As `Producer.produce_batch` takes it."""


class Side(Enum):
    """Whose program it is."""

    OURS = "ours"
    KAFKA_STREAMS = "Kafka Streams"
    FLINK = "Flink"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One comparison.

    Args:
        job: the file of our job; it has ``job_of(application_id, ...)`` and topics that begin with that id.
        program: the class of Kafka Streams' side; None where it has none.
        source: the last part of the source's name.
        sink: the same of the sink.
        internal: the last part of the name of the internal topic of each side that has one.
        batches: the source's records, given the first and the one after the last.
        records: how many the source has.
        units: what is counted of so many first records: words, say; the records themselves by default.
        table: the last part of the name, and all records, of a topic that both programs read before anything else.
        judge: is given the side and its sink's records; raises where they are wrong.
    """

    job: Path
    source: str
    sink: str
    batches: Callable[[int, int], Iterator[Sequence[Record]]]
    records: int
    judge: Callable[[Side, Iterable[tuple[bytes, bytes]]], None]
    program: str | None = None
    internal: Mapping[Side, str] = field(default_factory=dict)
    units: Callable[[int], int] = lambda records: records
    table: tuple[str, Callable[[], Iterator[Sequence[Record]]]] | None = None


def slices(begin: int, end: int) -> Iterator[slice]:
    """Of at most `BATCH` records each."""
    for at in range(begin, end, BATCH):
        yield slice(at, min(at + BATCH, end))
