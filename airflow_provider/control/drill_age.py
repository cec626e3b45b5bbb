"""Whether an application was rehearsed lately, by its history."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.control.history_record import HistoryKind, HistoryOutcome, HistoryRecord

__all__ = ["drill_overdue"]

_DAY_S = 86_400


def drill_overdue(records: Iterable[HistoryRecord], max_age_s: float, now_ms: int) -> str | None:
    """What is wrong with the age of the last drill that was passed, in one line; None where it is young enough.

    Args:
        records: what the application went through, of any kind.
        max_age_s: how old it may be, in seconds.
        now_ms: epoch ms.
    """
    drills = [record for record in records if record.kind is HistoryKind.DRILL]
    passed = max((d.ended_at_ms or d.at_ms for d in drills if d.outcome is HistoryOutcome.PASSED), default=None)
    if passed is not None and now_ms - passed <= 1000 * max_age_s:
        return None
    promised = f"one in {_days(max_age_s)} is promised"
    if passed is None:
        return f"no drill was ever passed, {promised}: run a drill DAG."
    last = max(drills, key=lambda drill: drill.at_ms)
    why = "" if last.outcome is HistoryOutcome.PASSED else f"; the last one was {last.outcome.value}: {last.reason}"
    return f"no drill was passed for {_days((now_ms - passed) / 1000)}, {promised}{why}. Look at the drill DAGs' runs."


def _days(seconds: float) -> str:
    return f"{seconds / _DAY_S:.1f} days"
