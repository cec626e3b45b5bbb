"""A job of two stages, which some schedules run: rows go through an internal topic to their group, whose windows close.

A row comes in time or late by the rows of its own partition alone, and a window closes once every partition has got
beyond it. So what has to come out of a window follows from the input, whoever reads what first.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Final

import msgspec

from tests.simulation.job import APPLICATION, MODEL, SINK
from tests.simulation.product import (
    CompiledJob,
    F,
    StatefulJob,
    TopicFacts,
    changelog_of,
    compile_job,
    partitions_read,
    stream,
    window,
)
from tests.simulation.spark import SOURCE

_WINDOW_MS: Final = 500
_DELAY_MS: Final = 300
_GROUPS: Final = 3


@functools.lru_cache
def compiled(partitions: int, groups_in: int, delete_retention_ms: int) -> CompiledJob:
    """The job as driver and workers carry it out.

    Args:
        groups_in: how many partitions the internal topic has.
    """
    rows = stream(
        SOURCE, schema="g STRING, n BIGINT, at BIGINT", event_time="at", watermark=f"{_DELAY_MS} milliseconds"
    )
    groups = rows.group_by("g", window("at", f"{_WINDOW_MS} milliseconds"), partitions=groups_in)
    totals = groups.aggregate(F.count().alias("rows"), F.sum("n").alias("total"), emit="close")
    job = StatefulJob(APPLICATION, totals.sink(SINK), certify_interval_s=None)
    facts = TopicFacts(
        partitions=partitions_read(job.stages, {SOURCE: partitions}),
        delete_retention_ms={changelog_of(APPLICATION, plan): delete_retention_ms for plan in job.stages},
    )
    found = compile_job(job, facts, lambda source: _never(source.topic))
    return CompiledJob(
        APPLICATION,
        tuple(
            dataclasses.replace(
                stage,
                spec=dataclasses.replace(
                    stage.spec,
                    store=dataclasses.replace(stage.spec.store, kind=MODEL),
                ),
            )
            for stage in found.stages
        ),
    )


def _never(topic: str) -> object:
    raise AssertionError(f"{topic} is decoded by Spark")


class Windows:
    """What has to come of the input.

    Args:
        random: decides groups and event times.
        now_ms: the time of the schedule, near which those are.
    """

    def __init__(self, partitions: int, random: Random, now_ms: Callable[[], int]) -> None:
        self._random, self._now_ms = random, now_ms
        self._totals = [0] * partitions
        self._seen_ms = [0] * partitions
        self._expected: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        """By group and begin of a window, the numbers of its rows that came in time."""
        self._out = set[tuple[str, int]]()
        self._number = 0

    def add(self, partition: int, _: bytes) -> tuple[int, bytes]:
        """One more record; returns its offset and its value."""
        self._number += 1
        group = f"g{self._random.randrange(_GROUPS)}"
        at_ms = self._now_ms() - self._random.choice((0, 0, 100, 400, 1500))
        begin_ms = at_ms // _WINDOW_MS * _WINDOW_MS
        if begin_ms + _WINDOW_MS > self._seen_ms[partition] - _DELAY_MS:
            self._expected[group, begin_ms].append(self._number)
        self._seen_ms[partition] = max(self._seen_ms[partition], at_ms)
        self._totals[partition] += 1
        value = msgspec.json.encode({"g": group, "n": self._number, "at": at_ms})
        return self._totals[partition] - 1, value

    def came_out(self, value: bytes) -> str | None:
        """A record of the sink that is committed; what is wrong with it, None for nothing."""
        found = msgspec.json.decode(value, type=_Total)
        window = found.g, int(found.window.start.timestamp() * 1000)
        numbers = self._expected.get(window, [])
        if window in self._out:
            return f"{value!r} comes out again"
        if (found.rows, found.total) != (len(numbers), sum(numbers)):
            return f"{value!r}, expected the rows {numbers}"
        self._out.add(window)
        return None

    def missing(self) -> str | None:
        """A window that has ended and did not come out; None where there is none."""
        mark_ms = min(self._seen_ms) - _DELAY_MS
        for group, begin_ms in sorted(self._expected.keys() - self._out):
            if begin_ms + _WINDOW_MS <= mark_ms:
                return f"the window of {group} from {begin_ms} on has not come out"
        return None


class _Window(msgspec.Struct):
    start: datetime


class _Total(msgspec.Struct):
    g: str
    window: _Window
    rows: int
    total: int
