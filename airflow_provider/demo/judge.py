"""Compares what came out with what had to come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from airflow_provider.demo.state_row import Commit
from airflow_provider.demo.truth import Aircraft, AirportHour, Truth

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

    Args:
        last: by key, the last output.
        records: how many were taken in.
        repeated: a line for each that repeats another.
    """

    last: dict[str, T] = field(default_factory=dict)
    records: int = 0
    repeated: list[str] = field(default_factory=list)

    def take(self, key: str, row: T, where: str) -> None:
        """Take one in.

        Args:
            row: its value.
            where: partition and offset, for a person.
        """
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
        aircraft: how many aircraft were compared.
        airport_hours: how many hours of an airport were.
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
        truth: what has to come out.
        aircraft: by tail number.
        airports: by airport and hour.
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
