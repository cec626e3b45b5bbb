"""Whether an application was rehearsed lately, by its history."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord

_DAY_S = 86_400


def passed_drill(records: Iterable[HistoryRecord]) -> HistoryRecord | None:
    """The drill that was passed last; None where none was.

    Args:
        records: what the application went through, of any kind.
    """
    passed = (r for r in records if r.kind is HistoryKind.DRILL and r.outcome is HistoryOutcome.PASSED)
    return max(passed, key=_ended_ms, default=None)


def drill_overdue(records: Iterable[HistoryRecord], max_age_s: float, now_ms: int) -> str | None:
    """What is wrong with the age of the last drill that was passed, in one line; None where it is young enough.

    Args:
        records: what the application went through, of any kind.
        max_age_s: how old it may be, in seconds.
        now_ms: epoch ms.
    """
    drills = [record for record in records if record.kind is HistoryKind.DRILL]
    newest = passed_drill(drills)
    passed = None if newest is None else _ended_ms(newest)
    if passed is not None and now_ms - passed <= 1000 * max_age_s:
        return None
    promised = f"one in {_days(max_age_s)} is promised"
    if passed is None:
        return f"no drill was ever passed, {promised}: run a drill DAG."
    last = max(drills, key=lambda drill: drill.at_ms)
    why = "" if last.outcome is HistoryOutcome.PASSED else f"; the last one was {last.outcome.value}: {last.reason}"
    return f"no drill was passed for {_days((now_ms - passed) / 1000)}, {promised}{why}. Look at the drill DAGs' runs."


def _ended_ms(drill: HistoryRecord) -> int:
    return drill.ended_at_ms or drill.at_ms


def _days(seconds: float) -> str:
    return f"{seconds / _DAY_S:.1f} days"
