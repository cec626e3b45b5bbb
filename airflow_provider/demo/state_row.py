"""The demo's own reading of the changelog, from ``docs/formats.md`` alone: it shares no code with what wrote it.

An aggregate's row, little-endian: a version byte; a byte for each accumulator, 1 where it has a value; a 64-bit
number for each, being an integer, a double's bits or a text's length; then the texts. The job keeps five.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Final

from airflow_provider.demo.aircraft import Aircraft

__all__ = ["COMMIT_KEY", "Commit", "decode_commit", "decode_state"]

COMMIT_KEY: Final = b"\xff\xfestateful-streams/commit"
"""The key of commit records; every other key is an aircraft."""

_ROW: Final = struct.Struct("<B5Bqdddq")


@dataclass(frozen=True, slots=True)
class Commit:
    """What the last commit of a task says is done.

    Args:
        source_offset: of the next flight to process.
        processed: flights so far.
        no_tail_number: how many of them the filter dropped.
        generation: of the assignment that it was committed under.
        instance: who committed it.
    """

    source_offset: int
    processed: int
    no_tail_number: int
    generation: int
    instance: str


def decode_state(value: bytes) -> Aircraft:
    """One aircraft's state.

    Raises:
        ValueError: the bytes are not of this layout.
    """
    if len(value) < _ROW.size:
        raise ValueError(f"a row of {len(value)} bytes, at least {_ROW.size} are needed: {value!r}")
    version, *rest = _ROW.unpack_from(value)
    present, (flights, distance, delay_sum, delay_max, length) = rest[:5], rest[5:]
    text = value[_ROW.size :]
    if version != 1 or not present[0] or len(text) != (length if present[4] else 0):
        raise ValueError(f"not a row of five accumulators in version 1: {value!r}")
    return Aircraft(
        flights,
        distance if present[1] else None,
        delay_sum if present[2] else None,
        delay_max if present[3] else None,
        text.decode() if present[4] else None,
    )


def decode_commit(value: bytes, source: str) -> Commit:
    """A commit record of the job over the topic `source`."""
    note = json.loads(value)
    return Commit(
        note["sources"][source]["offset"],
        note["processed"],
        note["filtered"].get("no_tail_number", 0),
        note["generation"],
        note["instance"],
    )
