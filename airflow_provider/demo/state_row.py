"""The demo's own reading of the changelog, from ``docs/formats.md`` alone: it shares no code with what wrote it.

An aggregate's row, little-endian: a version byte; a byte for each accumulator, 1 where it has a value; a 64-bit
number for each, being an integer, a double's bits or a text's length; then the texts. The job keeps five of an
aircraft, and three of an airport's hour. The key of such an hour is its start, big-endian with the first bit turned,
and the airport.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_provider.demo.truth import Aircraft, AirportHour

COMMIT_KEY: Final = b"\xff\xfestateful-streams/commit"
"""The key of commit records; every other key is an aircraft, or an airport's hour."""

_ROW: Final = struct.Struct("<B5Bqdddq")
_HOUR_ROW: Final = struct.Struct("<B3Bqdq")
_START: Final = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Commit:
    """What the last commit of a task says is done.

    Args:
        source_offset: of the next record to process.
        processed: records so far.
        no_tail_number: how many of them the filter dropped.
        generation: of the assignment that it was committed under.
        instance: who committed it.
        late: how many came when their window was closed.
    """

    source_offset: int
    processed: int
    no_tail_number: int
    generation: int
    instance: str
    late: int = 0


def decode_aircraft(key: bytes, value: bytes) -> tuple[str, Aircraft]:
    """An aircraft's tail number, and its state.

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
    return key.decode(), Aircraft(
        flights,
        distance if present[1] else None,
        delay_sum if present[2] else None,
        delay_max if present[3] else None,
        text.decode() if present[4] else None,
    )


def decode_airport_hour(key: bytes, value: bytes) -> tuple[str, AirportHour]:
    """An airport and the start of its hour, as the output has them in its key, and their state.

    Raises:
        ValueError: the bytes are not of this layout.
    """
    if len(key) <= _START.size or len(value) != _HOUR_ROW.size:
        raise ValueError(f"not a row of an hour: {key!r} {value!r}")
    version, has_flights, has_sum, _, flights, delay_sum, departed = _HOUR_ROW.unpack(value)
    if version != 1 or not has_flights:
        raise ValueError(f"not a row of three accumulators in version 1: {value!r}")
    start_ms = _START.unpack_from(key)[0] - (1 << 63)
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=start_ms)
    name = f"{key[_START.size :].decode()}@{start:%Y-%m-%dT%H:%M:%S}.{start_ms % 1000:03d}Z"
    return name, AirportHour(flights, delay_sum / departed if has_sum and departed else None)


def decode_commit(value: bytes, source: str) -> Commit:
    """A commit record of a stage over the topic `source`."""
    note = json.loads(value)
    return Commit(
        note["sources"][source]["offset"],
        note["processed"],
        note["filtered"].get("no_tail_number", 0),
        note["generation"],
        note["instance"],
        note["late"],
    )
