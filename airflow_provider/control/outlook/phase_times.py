"""What the phases of a failover took so far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider.control.history.record import HistoryKind, HistoryRecord
from airflow_provider.control.incident import IncidentKind
from airflow_provider.control.liveness import Timeouts

__all__ = ["PhaseTimes", "phase_times"]

_DETECTED_REPORTED_MS: Final = 100
"""Until a launcher's report of its instance's end, or an instance's of its task, is seen, where none is on record."""
_REPORTED: Final = frozenset({IncidentKind.INSTANCE_ENDED, IncidentKind.TASK_FAILED})
_DECIDED_MS: Final = 3_000
"""From there until the next generation is published: the most that was measured on a busy machine."""
_OWNED_MS: Final = 500
_FIRST_OUTPUT_MS: Final = 1_000

_NEWEST: Final = 50
_QUANTILE: Final = 0.9
_OF_LOST_INSTANCES: Final = frozenset(kind.value for kind in IncidentKind if kind.needs_replacement)


@dataclass(frozen=True, kw_only=True)
class PhaseTimes:
    """What a failover takes apart from restoring: the 90th percentile of each phase, in ms.

    Args:
        detected_ms: until a watcher sees the failure.
        decided_ms: from there until the next generation is published.
        owned_ms: from there until the next instance owns the task.
        first_output_ms: from there until it commits, without what it restores.
        failovers: how many failovers say so; 0 where all are this package's defaults.
    """

    detected_ms: int
    decided_ms: int
    owned_ms: int
    first_output_ms: int
    failovers: int = 0


def phase_times(history: Sequence[HistoryRecord], timeouts: Timeouts, cause: IncidentKind | None = None) -> PhaseTimes:
    """From the newest 50 failovers of lost instances; a default for each phase that none of them measured.

    Args:
        history: the oldest first.
        timeouts: silence that counts as the end is the default of detection.
        cause: only failovers of this kind, where there is one; None for any. How long detection takes is never taken
            from those of another kind.
    """
    # Clocks that are known to differ measured no phase.
    failovers = [r for r in history if r.kind is HistoryKind.FAILOVER and r.rto.clocks_differ_ms is None]
    lost = [record for record in failovers if record.cause in _OF_LOST_INSTANCES]
    alike = [record for record in failovers if cause is not None and record.cause == cause.value]
    newest = (alike or lost)[-_NEWEST:]
    # A silence takes its timeout, an end that is reported no time: one says nothing of the other.
    found_alike = newest if cause is None else alike[-_NEWEST:]
    detected_ms = _DETECTED_REPORTED_MS if cause in _REPORTED else round(1000 * timeouts.instance_s)
    return PhaseTimes(
        detected_ms=_p90((record.rto.detected_ms for record in found_alike), detected_ms),
        decided_ms=_p90((record.rto.decided_ms for record in newest), _DECIDED_MS),
        owned_ms=_p90((record.rto.owned_ms for record in newest), _OWNED_MS),
        first_output_ms=_p90(map(_output_without_restore, newest), _FIRST_OUTPUT_MS),
        failovers=len(newest),
    )


def _output_without_restore(record: HistoryRecord) -> int | None:
    took_s = max((restore.took_s for restore in record.restores), default=0.0)
    output = record.rto.first_output_ms
    return None if output is None else max(0, output - round(1000 * took_s))


def _p90(times: Iterable[int | None], default: int) -> int:
    # Clocks of several hosts: a part can be below zero.
    known = sorted(max(0, time) for time in times if time is not None)
    return known[math.ceil(_QUANTILE * len(known)) - 1] if known else default
