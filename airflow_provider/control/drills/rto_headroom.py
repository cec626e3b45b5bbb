"""Whether a drill's failover would end within what is promised, before it begins."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider.control.outlook.predicted_rto import PredictedRto, worst_rto_ms

__all__ = ["rto_problem"]


def rto_problem(predicted: Collection[PredictedRto], max_rto_s: float | None) -> str | None:
    """That it would take longer than promised, even if all goes as it did before; None where it would not.

    Args:
        predicted: of the tasks that are to be hit; those that go by defaults alone keep no drill from beginning.
        max_rto_s: what is promised; None where nothing is.
    """
    worst_ms = worst_rto_ms([one for one in predicted if one.phases.failovers])
    if max_rto_s is None or worst_ms is None or worst_ms <= 1000 * max_rto_s:
        return None
    return (
        f"by what failovers took so far it would take {worst_ms / 1000:.1f} s, and {max_rto_s:g} s are promised: look "
        "at the predicted RTO for the part that takes longest, and drill once that is shorter."
    )
