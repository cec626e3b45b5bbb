"""Why an RTO is not measured although its tasks have committed again: the clocks that would measure it differ."""

from __future__ import annotations

from airflow_provider.control.records.history import RtoParts
from airflow_provider.control.records.incident import IncidentRecord

__all__ = ["clock_gap"]


def clock_gap(rto: RtoParts, record: IncidentRecord) -> str | None:
    """In one line; None where the clocks are not known to differ.

    Args:
        rto: of the failover.
        record: of its incident.
    """
    if rto.clocks_differ_ms is None:
        return None
    first = "the brokers" if record.failed_at_ms else "the watcher"
    owners = ", ".join(sorted({decision.to for decision in record.plan if decision.to})) or "the next owner"
    return f"not measured: the clocks of {first} and of {owners} differ by {rto.clocks_differ_ms / 1000:.1f} s or more"
