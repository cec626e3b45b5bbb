"""Checks that a job's result does not depend on where its micro-batches end."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.streaming.planner.job import StatefulJob
from airflow_provider.testing.job_tester import JobTester
from airflow_provider.testing.records import InputRecord
from airflow_provider.testing.source_rows import SourceRecord

_FIRST_MS: Final = 1_700_000_000_000
"""Time of the first record where none is given: the same in every run."""

_MAX_FAULTS: Final = 3
_MAX_SHOWN: Final = 10
_REL_TOL: Final = 1e-9

_NOTHING: Final = "nothing"


def check_batching(
    job: StatefulJob,
    records: Iterable[Any],
    seed: int | None = None,
    cuts: int = 20,
    *,
    partitions: int = 1,
    faults: bool = True,
) -> None:
    """Check that a job comes to the same result however its input is cut into micro-batches.

    Spark decides where a micro-batch ends, and instances restart. So the records are processed one by one first, and
    then again and again in micro-batches of random sizes, with restarts, replays of the changelog and promotions of a
    standby between them. Each time the state, the last output of each key (of a join with a stream all of them), the
    dead letters (without their stacks) and the counts have to be the same. Floats may differ in the last digits,
    because a sum depends on its order.

    Args:
        job: complete.
        records: as in `JobTester.pipe_inputs`. Where a record has no timestamp, it gets one that is always the same.
        seed: of the random cuts; None for another one each time, which a failure names.
        cuts: how many times the records are cut at random.
        partitions: of the source topic.
        faults: whether there are restarts, replays and promotions.

    Raises:
        AssertionError: two results differ; names the seed, the micro-batches and what differs.
        RecordError: a record cannot be processed, and the job's policy is ``"fail"``.
    """
    given = [value if isinstance(value, InputRecord) else InputRecord(value) for value in records]
    timed = [
        dataclasses.replace(record, timestamp_ms=_FIRST_MS + number) if record.timestamp_ms is None else record
        for number, record in enumerate(given)
    ]
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    randomness = random.Random(seed)
    expected = _run(job, timed, _Cut(tuple([1] * len(timed)), {}), partitions)
    for number in range(1, cuts + 1):
        cut = _random_cut(randomness, len(timed), faults)
        found = _run(job, timed, cut, partitions)
        differences = expected.differences(found)
        if differences:
            more = len(differences) - _MAX_SHOWN
            shown = "\n".join(differences[:_MAX_SHOWN] + ([f"... and {more} more"] if more > 0 else []))
            raise AssertionError(
                f"The result depends on where micro-batches end (seed {seed}, cut {number} of {cuts}).\n"
                f"Micro-batches: {cut}\n{shown}\n"
                f"Pass seed={seed} to see the same again; the job's function must not rely on the rows of one call."
            )


@dataclass(frozen=True)
class _Cut:
    """Where micro-batches end, and what happens after some of them."""

    sizes: tuple[int, ...]
    faults: Mapping[int, str]

    def __str__(self) -> str:
        steps = []
        for number, size in enumerate(self.sizes):
            happens = self.faults.get(number)
            steps.append(str(size) if happens is None else f"{size}, {happens}")
        return ", ".join(steps)


FAULTS: Final = {
    "restart": lambda tester: tester.restart(),
    "restart with an empty store": lambda tester: tester.restart(store="empty"),
    "promotion of the standby": lambda tester: tester.promote_standby(),
}
"""What happens to a tested job between two micro-batches."""


@dataclass(frozen=True)
class _Result:
    """What a run came to, by what it is called in a failure."""

    facts: Mapping[str, Any]

    def differences(self, other: _Result) -> list[str]:
        """A line for each fact that differs."""
        names = [*self.facts, *(name for name in other.facts if name not in self.facts)]
        pairs = [(name, self.facts.get(name, _NOTHING), other.facts.get(name, _NOTHING)) for name in names]
        return [
            f"{name}: one record a micro-batch gives {expected!r}, these give {found!r}"
            for name, expected, found in pairs
            if not _agree(expected, found)
        ]


def _random_cut(randomness: random.Random, records: int, with_faults: bool) -> _Cut:
    ends = sorted(randomness.sample(range(1, records), randomness.randrange(records))) if records > 1 else []
    edges = [0, *ends, records]
    sizes = tuple(end - begin for begin, end in itertools.pairwise(edges) if end > begin)
    faults = {}
    if with_faults and sizes:
        for _ in range(randomness.randint(0, _MAX_FAULTS)):
            faults[randomness.randrange(len(sizes))] = randomness.choice(list(FAULTS))
    return _Cut(sizes, faults)


def _run(job: StatefulJob, records: Sequence[InputRecord], cut: _Cut, partitions: int) -> _Result:
    with _RunTester(job, partitions) as tester:
        tester.expect(records)
        begin = 0
        for number, size in enumerate(cut.sizes):
            tester.pipe_inputs(records[begin : begin + size])
            begin += size
            if number in cut.faults:
                FAULTS[cut.faults[number]](tester)
        facts: dict[str, Any] = {}
        for store, where in tester.stores().items():
            facts.update({f"state of {key!r}{where}": state for key, state in tester.states(store).items()})
        lasting = tester.lasting
        for sink, where in tester.sinks().items():
            by_key = defaultdict[str | None, list[Any]](list)
            for record in tester.read_output(sink):
                by_key[record.key].append(_NOTHING if record.value is None else record.value)
            for key, values in by_key.items():
                if sink in lasting:
                    facts[f"outputs of {key!r}{where}"] = sorted(values, key=repr)
                else:
                    # A later record replaces an earlier one of its key.
                    facts[f"last output of {key!r}{where}"] = values[-1]
        for letter in tester.dead_letters():
            where = f"dead letter of {letter.topic}[{letter.partition}] at offset {letter.offset}"
            facts[where] = (letter.key, letter.value, letter.error, letter.message)
        counts = tester.counts
        facts["processed records"], facts["failed records"] = counts.processed, counts.failed
        facts["late records"] = counts.late
        facts.update({f"records filtered by {name!r}": number for name, number in counts.filtered.items()})
    return _Result(facts)


class _RunTester(JobTester):
    """A tester that is told beforehand what it will get, and tells what there is to compare."""

    def stores(self) -> dict[str, str]:
        """The stores that keep something, each with how it is told from the others."""
        return _told_apart([stage.spec.store.name for stage in self._job.stages if stage.spec.keeps_state])

    def sinks(self) -> dict[str, str]:
        """The sinks, each with how it is told from the others."""
        return _told_apart(self._sinks)

    @property
    def lasting(self) -> set[str]:
        """The sinks whose records all count, in whatever order they come."""
        return {sink for stage in self._job.stages if stage.spec.operation.lasting for sink in stage.spec.outputs}

    def expect(self, records: Iterable[InputRecord]) -> None:
        """Say which records will be piped, in their order.

        Raises:
            ConfigurationError: as `JobTester.pipe_inputs` does.
        """
        ends: Counter[tuple[str, int]] = Counter()
        placed: dict[str, list[SourceRecord]] = {}
        for topic, partition, record in map(self._source_record, records):
            at = SourceRecord(partition=partition, offset=ends[topic, partition], record=record)
            placed.setdefault(topic, []).append(at)
            ends[topic, partition] += 1
        self._known_ends |= ends
        for stage in self._job.stages:
            self._rows[stage.number].decode_ahead(placed.get(stage.source.topic, ()))


def _told_apart(names: Sequence[str]) -> dict[str, str]:
    return {name: f" in {name!r}" if len(names) > 1 else "" for name in names}


def _agree(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_agree(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agree, one, other))
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
        return numbers and (
            math.isclose(one, other, rel_tol=_REL_TOL, abs_tol=_REL_TOL) or (one != one and other != other)
        )
    return bool(one == other)
