"""All that an application's metrics say of its future: pure functions, of the oldest record first."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.common.table import mib
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.forecast import DAY_S, Forecast, Outlook, Point, forecast, too_few, trend
from airflow_provider.control.outlook.predicted_rto import RestoreRate, RtoBasis, observed_restore_rate
from airflow_provider.control.records.metrics import MetricsRecord, TaskMetrics
from airflow_provider.control.records.status import Role


def disk_series(records: Iterable[MetricsRecord]) -> Mapping[str, Sequence[Point]]:
    """By instance, what its disk had left, in bytes, the oldest first.

    A process, a host and the set of its tasks make a run: with each of them the free space may jump. What is written
    while a store is restored is no growth, and left out.
    """
    points: dict[str, list[Point]] = {}
    for record in _in_order(records):
        series = points.setdefault(record.instance, [])
        if record.disk_free_bytes is not None and not any(task.restoring for task in record.tasks):
            run = (record.incarnation, record.host, frozenset(task.task for task in record.tasks))
            series.append(Point(record.at_ms, record.disk_free_bytes, run))
    return points


def store_series(records: Iterable[MetricsRecord]) -> Mapping[TaskId, Sequence[Point]]:
    """By task, what the store of its active takes on disk, in bytes, the oldest first.

    Each owner makes a run, because what RocksDB has compacted differs.
    """
    points: defaultdict[TaskId, list[Point]] = defaultdict(list)
    for record, task in _of_owners(records):
        if task.store_bytes is not None and not task.restoring:
            run = (record.instance, record.incarnation, task.generation)
            points[task.task].append(Point(record.at_ms, task.store_bytes, run))
    return points


def changelog_series(records: Iterable[MetricsRecord]) -> Mapping[TaskId, Sequence[Point]]:
    """By task, the end of its changelog, in offsets, the oldest first: one run over all owners, since it is one log.

    What lies before a changelog that was created anew, which begins at 0 again, is left out.
    """
    points: defaultdict[TaskId, list[Point]] = defaultdict(list)
    for record, task in _of_owners(records):
        series = points[task.task]
        if task.changelog_end is not None:
            if series and task.changelog_end < series[-1].value:
                series.clear()
            series.append(Point(record.at_ms, task.changelog_end))
    return points


def _of_owners(records: Iterable[MetricsRecord]) -> Iterator[tuple[MetricsRecord, TaskMetrics]]:
    """What actives said; not what an earlier one says after the next has begun."""
    newest: defaultdict[TaskId, int] = defaultdict(int)
    for record in _in_order(records):
        for task in record.tasks:
            if task.role is Role.ACTIVE and task.generation >= newest[task.task]:
                newest[task.task] = task.generation
                yield record, task


def _in_order(records: Iterable[MetricsRecord]) -> Sequence[MetricsRecord]:
    return sorted(records, key=lambda record: record.at_ms)


_LATEST: Final = (Outlook.REACHED, Outlook.AHEAD, Outlook.NOT_ENOUGH, Outlook.LATER, Outlook.STEADY)


@dataclass(frozen=True, kw_only=True)
class ChangelogGrowth:
    """How fast the changelog of a task grows.

    Args:
        end: offset after its last record; None where it was not seen.
        records_per_day: offsets that it gains in a day, before compaction; None where that is not known.
        store_bytes: what the active's store takes: about what is left after compaction; None where it is not known.
        store_bytes_per_day: what that gains in a day; None where that is not known.
        why: what is missing where ``records_per_day`` is None; empty otherwise.
    """

    task: TaskId
    end: int | None
    records_per_day: float | None
    store_bytes: int | None
    store_bytes_per_day: float | None
    why: str = ""


def changelog_growths(records: Sequence[MetricsRecord], now_ms: int) -> dict[TaskId, ChangelogGrowth]:
    """By task, how fast its changelog grows."""
    sizes = store_series(records)
    return {
        task_id: _growth(task_id, ends, sizes.get(task_id, ()), now_ms)
        for task_id, ends in sorted(changelog_series(records).items())
    }


def _growth(task_id: TaskId, ends: Sequence[Point], sizes: Sequence[Point], now_ms: int) -> ChangelogGrowth:
    why = too_few(ends, now_ms)
    growing = None if why is not None else trend(ends)
    size = None if too_few(sizes, now_ms) is not None else trend(sizes)
    return ChangelogGrowth(
        task=task_id,
        end=int(ends[-1].value) if ends else None,
        records_per_day=None if growing is None else growing.per_s * DAY_S,
        store_bytes=int(sizes[-1].value) if sizes else None,
        store_bytes_per_day=None if size is None else size.per_s * DAY_S,
        why="" if growing is not None else why or "no process ran for long enough",
    )


def _disks(records: Sequence[MetricsRecord], now_ms: int, min_free_bytes: int) -> dict[str, Forecast]:
    """By the newest day: free space may jump, as when somebody deletes files, and what lies before says nothing."""
    return {
        name: forecast(
            [point for point in points if point.at_ms > points[-1].at_ms - 1000 * DAY_S],
            min_free_bytes,
            rises=False,
            now_ms=now_ms,
        )
        for name, points in sorted(disk_series(records).items())
    }


def _replays(
    records: Sequence[MetricsRecord], basis: RtoBasis, max_rto_s: float, now_ms: int
) -> dict[TaskId, Forecast]:
    """What a replay takes is predicted as `predicted_rto.predict_rto` does for a task without a copy.

    That is the phases, and all offsets of the changelog by the rate of records, or what the active's store holds by the
    rate of bytes, whichever is sooner. So a changelog that is compacted to a store that does not grow never gets there.
    The figures of the forecasts are seconds. Without a restore on record, in the history or in the metrics, nothing is
    told.
    """
    rate = basis.any_rate if basis.any_rate.measured else observed_restore_rate(records)
    found, sizes = {}, store_series(records)
    for task_id, ends in sorted(changelog_series(records).items()):
        if rate is None:
            why = "no restore of 10,000 records or more is on record"
            found[task_id] = Forecast(outlook=Outlook.NOT_ENOUGH, value=None, limit=max_rto_s, why=why)
        else:
            found[task_id] = _forecast(
                ends, sizes.get(task_id, ()), rate, basis.phases.total_ms / 1000, max_rto_s, now_ms
            )
    return found


def _forecast(
    ends: Sequence[Point], sizes: Sequence[Point], rate: RestoreRate, fixed_s: float, max_rto_s: float, now_ms: int
) -> Forecast:
    ways = [_in_seconds(ends, rate.records_per_s, fixed_s, max_rto_s, now_ms)]
    if rate.bytes_per_s and sizes:
        ways.append(_in_seconds(sizes, rate.bytes_per_s, fixed_s, max_rto_s, now_ms))
    # The replay takes the shorter of both, so it is over the limit when the later one is.
    latest = max(ways, key=lambda way: (_LATEST.index(way.outlook), way.in_s or 0.0))
    known = [way.value for way in ways if way.value is not None]
    return dataclasses.replace(latest, value=min(known, default=None))


def _in_seconds(points: Sequence[Point], per_s: float, fixed_s: float, max_rto_s: float, now_ms: int) -> Forecast:
    seconds = [Point(point.at_ms, fixed_s + point.value / per_s, point.run) for point in points]
    return forecast(seconds, max_rto_s, rises=True, now_ms=now_ms)


@dataclass(frozen=True, kw_only=True)
class MetricsForecasts:
    """What lies ahead if things go on as they do.

    Args:
        disks: by instance, when its disk has too little left, in bytes.
        replays: by task, when a failover that replays its whole changelog takes too long, in seconds; empty where no
            RTO is promised.
    """

    disks: dict[str, Forecast] = field(default_factory=dict)
    growths: dict[TaskId, ChangelogGrowth] = field(default_factory=dict)
    replays: dict[TaskId, Forecast] = field(default_factory=dict)

    def lines(self) -> tuple[str, ...]:
        """A line for people of each."""
        return (
            *(f"disk of {name}: {_disk_line(disk)}" for name, disk in self.disks.items()),
            *(f"changelog of task {task}: {_growth_line(growth)}" for task, growth in self.growths.items()),
            *(f"replay of task {task}: {_replay_line(replay)}" for task, replay in self.replays.items()),
        )


def metrics_forecasts(
    records: Sequence[MetricsRecord],
    now_ms: int,
    *,
    instances: Collection[str] | None = None,
    min_free_bytes: int | None = None,
    max_rto_s: float | None = None,
    basis: RtoBasis | None = None,
) -> MetricsForecasts:
    """All forecasts.

    Args:
        instances: those whose disks matter; None for all that wrote a record.
        max_rto_s: what a failover may take that replays a whole changelog; None for no such promise.
        basis: what failovers take, from the history; needed with `max_rto_s`.
    """
    disks = _disks(records, now_ms, min_free_bytes or 0)
    replays = {}
    if max_rto_s is not None and basis is not None:
        replays = _replays(records, basis, max_rto_s, now_ms)
    return MetricsForecasts(
        disks={name: disk for name, disk in disks.items() if instances is None or name in instances},
        growths=changelog_growths(records, now_ms),
        replays=replays,
    )


def days(seconds: float) -> str:
    """A time for people."""
    return f"{seconds / DAY_S:,.1f} days" if seconds >= DAY_S else f"{seconds / 3600:,.1f} hours"


def _disk_line(disk: Forecast) -> str:
    limit = "full" if disk.limit <= 0 else f"below {mib(disk.limit)}"
    free = "" if disk.value is None else f"{mib(disk.value)} free, "
    change = "" if disk.per_day is None else f"{mib(disk.per_day)} a day; "
    return f"{free}{change}{_outlook(disk, limit)}"


def _replay_line(replay: Forecast) -> str:
    takes = "" if replay.value is None else f"a failover without a copy takes {replay.value:,.1f} s, "
    change = "" if replay.per_day is None else f"{replay.per_day:+,.1f} s a day; "
    return f"{takes}{change}{_outlook(replay, f'above {replay.limit:g} s')}"


def _growth_line(growth: ChangelogGrowth) -> str:
    if growth.records_per_day is None:
        return f"not enough records: {growth.why}"
    size = "" if growth.store_bytes_per_day is None else f", its store {mib(growth.store_bytes_per_day)} a day"
    return f"grows by {growth.records_per_day:,.0f} records a day{size}"


def _outlook(forecast: Forecast, limit: str) -> str:
    match forecast.outlook:
        case Outlook.NOT_ENOUGH:
            return f"not enough records: {forecast.why}"
        case Outlook.REACHED:
            return f"{limit} now"
        case Outlook.AHEAD:
            return f"{limit} in {days(forecast.in_s or 0.0)}"
        case Outlook.LATER:
            return f"{limit} later than the records tell"
        case Outlook.STEADY:
            return f"not {limit} as things go"
