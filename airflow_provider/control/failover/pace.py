"""How fast failovers of tasks that stand still may follow each other: a pure function of what was answered before.

On a host that has more to do than it can, tasks stand still for want of it, and each move adds load: an owner restores,
a query starts. So the answers slow down, and end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from airflow_provider.control.records.incident import Action, Incident, IncidentKind, IncidentRecord

_WINDOW_MS: Final = 1_800_000
_ROUND_MS: Final = 30_000
"""Tasks of one instance that stand still for one reason are found within some seconds, and are one failover."""
_FIRST_PAUSE_MS: Final = 120_000
_MOST: Final = 4


@dataclass(frozen=True, kw_only=True)
class FailoverPace:
    """What went before an incident.

    Args:
        failovers: of the application's tasks that stood still, in the last half hour.
        since_ms: how long ago the first of them was.
        pause_ms: how long the next one has to wait still; 0 for no longer.
        progress: offsets of its source by which the task has got on since the first of them; None where not known.
    """

    failovers: int = 0
    since_ms: int = 0
    pause_ms: int = 0
    progress: int | None = None

    @property
    def exhausted(self) -> bool:
        """Whether no further one is to follow for now."""
        return self.failovers >= _MOST

    @property
    def puts_off(self) -> bool:
        """Whether it is too early for the next one, which is found again as long as it is wrong."""
        return self.pause_ms > 0 and not self.exhausted

    def __str__(self) -> str:
        got_on = "" if self.progress is None else f", in which it got on by {self.progress} records"
        minutes = max(1, round(self.since_ms / 60_000))
        return (
            f"the host cannot keep up: {self.failovers} failovers of tasks that stood still in {minutes} min{got_on}, "
            "and each adds load. Give it more cores or fewer tasks, or run an instance on another host, then run the "
            "failover by hand"
        )


def pace_of(incident: Incident, answered: Iterable[IncidentRecord], now_ms: int) -> FailoverPace:
    """Twice as long a pause after each failover of the last half hour, from two minutes; after four, none.

    What failed or is gone is answered at once, always; only of a task that stands still is it doubtful whether a move
    helps.
    """
    if incident.kind is not IncidentKind.TASK_STALLED:
        return FailoverPace()
    moved = [record for record in answered if _moved(record) and now_ms - record.decided_at_ms <= _WINDOW_MS]
    moved.sort(key=lambda record: record.decided_at_ms)
    if not moved:
        return FailoverPace()
    begun, last_ms, failovers = moved[0].decided_at_ms, moved[0].decided_at_ms, 1
    tasks = set(moved[0].incident.tasks)
    for record in moved[1:]:
        if record.decided_at_ms - last_ms > _ROUND_MS:
            failovers, last_ms, tasks = failovers + 1, record.decided_at_ms, set()
        tasks |= set(record.incident.tasks)
    if now_ms - last_ms <= _ROUND_MS and tasks.isdisjoint(incident.tasks):
        # One with those that were answered a moment ago.
        failovers, last_ms = failovers - 1, 0
    pause_ms = last_ms + _FIRST_PAUSE_MS * 2 ** (failovers - 1) - now_ms if failovers else 0
    offsets = [r.incident.source_offset for r in moved if r.incident.tasks == incident.tasks]
    known = bool(offsets) and offsets[0] is not None and incident.source_offset is not None
    return FailoverPace(
        failovers=failovers,
        since_ms=now_ms - begun,
        pause_ms=max(0, pause_ms),
        progress=(incident.source_offset or 0) - (offsets[0] or 0) if known else None,
    )


def _moved(record: IncidentRecord) -> bool:
    stalled = record.incident.kind is IncidentKind.TASK_STALLED
    return stalled and any(one.action in (Action.PROMOTE, Action.REPLAY) for one in record.plan)
