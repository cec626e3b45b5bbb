"""The figures of a demo's result, by name."""

from __future__ import annotations

from airflow_provider.demo.judge import Verdict
from airflow_provider.demo.timeline import Timeline

__all__ = ["result_rows", "result_title"]


def result_title(right: bool) -> str:
    """Return what came out, in one line."""
    if right:
        return "Right: every aircraft and every airport's hour is what pandas computes, and nothing came out twice."
    return "WRONG: what came out is not what pandas computes."


def result_rows(timeline: Timeline, verdict: Verdict, flights: int, outputs: int) -> list[tuple[str, str]]:
    """Return name and figure of every row.

    Args:
        timeline: of the failover; its steps are given in seconds after the kill.
        verdict: of the comparison.
        flights: how many were published.
        outputs: how many output records there are, of both stages that write any.
    """

    def seconds(value: float | None, sign: str = "") -> str:
        return "-" if value is None else f"{value:{sign}.2f} s"

    return [
        *((name, seconds(after, "+")) for name, after in timeline.steps()),
        ("RTO: kill to output of all its tasks", seconds(timeline.rto_s)),
        ("changelog records replayed", "-" if timeline.replayed is None else f"{timeline.replayed:,}"),
        ("flights: input records, one per departure", f"{flights:,}"),
        ("outputs: one per key and micro-batch", f"{outputs:,}"),
        ("aircraft compared with pandas", f"{verdict.aircraft:,}"),
        ("hours of airports compared with pandas", f"{verdict.airport_hours:,}"),
        ("different", f"{len(verdict.different):,}"),
        ("duplicated", f"{len(verdict.repeated):,}"),
        ("miscounted", f"{len(verdict.miscounted):,}"),
    ]
