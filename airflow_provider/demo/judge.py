"""Compares what came out with what had to come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider.demo.aircraft import Aircraft
from airflow_provider.demo.state_row import Commit
from airflow_provider.demo.truth import Truth

__all__ = ["Outputs", "Verdict", "judge"]

_SHOWN = 5


@dataclass
class Outputs:
    """The output records, taken in one after the other in the order of their partitions.

    Every output of an aircraft covers at least one flight more than the one before it. One that does not repeats
    what was put out before.

    Args:
        last: by tail number, the last output.
        records: how many were taken in.
        repeated: a line for each that repeats another.
    """

    last: dict[str, Aircraft] = field(default_factory=dict)
    records: int = 0
    repeated: list[str] = field(default_factory=list)

    def take(self, tail_number: str, aircraft: Aircraft, where: str) -> None:
        """Take one in.

        Args:
            tail_number: its key.
            aircraft: its value.
            where: partition and offset, for a person.
        """
        before = self.last.get(tail_number)
        if before is not None and aircraft.flights <= before.flights:
            self.repeated.append(f"{tail_number} at {where}: flight {aircraft.flights} after flight {before.flights}")
        self.records += 1
        self.last[tail_number] = aircraft


@dataclass(frozen=True)
class Verdict:
    """What the comparison found.

    Args:
        compared: how many aircraft were compared.
        different: a line for each aircraft whose state or last output is not right, missing or too much.
        repeated: a line for each output that repeats another.
        miscounted: a line for each count of the commit records that is not right.
    """

    compared: int
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


def judge(truth: Truth, state: Mapping[str, Aircraft], outputs: Outputs, commits: Mapping[int, Commit]) -> Verdict:
    """Compare the state and the last output of every aircraft, and the counts of the commit records.

    Args:
        truth: what has to come out.
        state: by tail number, as the changelog has it.
        outputs: every output under ``read_committed``.
        commits: by task, the last commit record.
    """
    different = []
    for tail_number in sorted({*truth.aircraft, *state, *outputs.last}):
        wanted = truth.aircraft.get(tail_number)
        for where, found in (("state", state.get(tail_number)), ("output", outputs.last.get(tail_number))):
            if found != wanted:
                different.append(f"{tail_number}: {where} {found}, needed {wanted}")
                break
    miscounted = []
    for what, found_count, wanted_count in (
        ("flights processed", sum(c.processed for c in commits.values()), truth.flights),
        ("flights without a tail number", sum(c.no_tail_number for c in commits.values()), truth.no_tail_number),
        ("flights in the source", sum(c.source_offset for c in commits.values()), truth.flights),
    ):
        if found_count != wanted_count:
            miscounted.append(f"{what}: {found_count:,}, needed {wanted_count:,}")
    return Verdict(
        len({*truth.aircraft, *state, *outputs.last}), tuple(different), tuple(outputs.repeated), tuple(miscounted)
    )
