"""Compares what came out with what had to come out, by a reading of the changelog of its own.

It reads it from ``docs/formats.md`` alone, and shares no code with what wrote it. An aggregate's row, little-endian: a
version byte; a byte for each accumulator, 1 where it has a value; a 64-bit number for each, being an integer, a
double's bits or a text's length; then the texts. The job keeps five of an aircraft, and three of an airport's hour. The
key of such an hour is its start, big-endian with the first bit turned, and the airport.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, Protocol, TypeVar

from airflow_provider.demo.flights import Aircraft, AirportHour, Truth

COMMIT_KEY: Final = b"\xff\xfestateful-streams/commit"
"""The key of commit records; every other key is an aircraft, or an airport's hour."""

_ROW: Final = struct.Struct("<B5Bqdddq")
_HOUR_ROW: Final = struct.Struct("<B3Bqdq")
_START: Final = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Commit:
    """What the last commit of a task says is done.

    Args:
        no_tail_number: how many of them the filter dropped.
        late: how many came when their window was closed.
    """

    source_offset: int
    processed: int
    no_tail_number: int
    generation: int
    instance: str
    late: int = 0


def decode_aircraft(key: bytes, value: bytes) -> tuple[str, Aircraft]:
    """An aircraft's tail number, and its state."""
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
    """An airport and the start of its hour, as the output has them in its key, and their state."""
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


_SHOWN = 5

Commits = Mapping[int, Commit]
"""By task of a stage, its last commit record."""


class Row(Protocol):
    """What is known of a key: an `Aircraft`, or an `AirportHour`."""

    @property
    def flights(self) -> int:
        """How many flights it is made of."""


T = TypeVar("T", bound=Row)


@dataclass
class Outputs(Generic[T]):
    """The output records of a sink, taken in one after the other in the order of their partitions.

    Every output of a key covers at least one flight more than the one before it. One that does not repeats what was
    put out before.
    """

    last: dict[str, T] = field(default_factory=dict)
    records: int = 0
    repeated: list[str] = field(default_factory=list)

    def take(self, key: str, row: T, where: str) -> None:
        """Take one in."""
        before = self.last.get(key)
        if before is not None and row.flights <= before.flights:
            self.repeated.append(f"{key} at {where}: flight {row.flights} after flight {before.flights}")
        self.records += 1
        self.last[key] = row


@dataclass(frozen=True)
class Table(Generic[T]):
    """One of the two results: by key, what the changelog has as its state, and what came out."""

    state: Mapping[str, T]
    outputs: Outputs[T]


@dataclass(frozen=True)
class Verdict:
    """What the comparison found.

    Args:
        different: a line for each of them whose state or last output is not right, missing or too much.
        repeated: a line for each output that repeats another.
        miscounted: a line for each count of the commit records that is not right.
    """

    aircraft: int
    airport_hours: int
    different: tuple[str, ...]
    repeated: tuple[str, ...]
    miscounted: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether everything is as it has to be."""
        return not (self.different or self.repeated or self.miscounted)

    def lines(self) -> list[str]:
        """What is wrong, a few lines of each sort."""
        shown: list[str] = []
        for what, found in (
            ("different", self.different), ("repeated", self.repeated), ("miscounted", self.miscounted)
        ):  # fmt: skip
            shown += [f"{what}: {line}" for line in found[:_SHOWN]]
            if len(found) > _SHOWN:
                shown.append(f"{what}: and {len(found) - _SHOWN} more")
        return shown


def judge(truth: Truth, aircraft: Table[Aircraft], airports: Table[AirportHour], commits: Sequence[Commits]) -> Verdict:
    """Compare the state and the last output of every aircraft and airport's hour, and the counts of the commit records.

    Args:
        commits: of the three stages: aircraft; on the way to the airports; airports.
    """
    keys, different = _compare(truth.aircraft, aircraft)
    hours, different_hours = _compare(truth.airports, airports)
    of_aircraft, on_the_way, of_airports = (list(stage.values()) for stage in commits)
    miscounted = [
        f"{what}: {found:,}, needed {wanted:,}"
        for what, found, wanted in (
            ("flights processed", sum(c.processed for c in of_aircraft), truth.flights),
            ("flights without a tail number", sum(c.no_tail_number for c in of_aircraft), truth.no_tail_number),
            ("flights in the source", sum(c.source_offset for c in of_aircraft), truth.flights),
            ("flights sent to their airports", sum(c.processed for c in on_the_way), truth.flights),
            ("flights in the source, by airports", sum(c.source_offset for c in on_the_way), truth.flights),
            ("flights that came to their airports", sum(c.processed for c in of_airports), truth.flights),
            ("flights too late for their hour", sum(c.late for c in of_airports), 0),
        )
        if found != wanted
    ]
    return Verdict(
        keys,
        hours,
        (*different, *different_hours),
        (*aircraft.outputs.repeated, *airports.outputs.repeated),
        tuple(miscounted),
    )


def _compare(truth: Mapping[str, T], found: Table[T]) -> tuple[int, list[str]]:
    """How many keys there are, and a line for each that is not right."""
    keys = {*truth, *found.state, *found.outputs.last}
    different = []
    for key in sorted(keys):
        wanted = truth.get(key)
        for where, row in (("state", found.state.get(key)), ("output", found.outputs.last.get(key))):
            if row != wanted:
                different.append(f"{key}: {where} {row}, needed {wanted}")
                break
    return len(keys), different
