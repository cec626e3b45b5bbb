"""The history of an application as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from airflow_provider.common.table import table_lines
from airflow_provider.control.records.history import HistoryRecord

_COLUMNS = (
    "began (UTC)", "kind", "cause", "outcome", "instances", "tasks", "RTO", "detected", "decided", "owned", "output",
    "predicted", "lost", "doubled", "restored", "records/s", "SLO", "by",
)  # fmt: skip
_SLO = {None: "-", True: "met", False: "missed"}


def history_table(records: Sequence[HistoryRecord]) -> str:
    """A line for each record in the order given, and below it why it failed or was skipped.

    The four columns after the RTO are its parts: from the failure until it was detected, from there until the next
    generation was published, until the last task was owned, until it committed. ``lost`` and ``doubled`` are input
    records, ``restored`` changelog records; ``-`` is not known.
    """
    if not records:
        return "no history"
    header, *rows = table_lines(_COLUMNS, [_row(record) for record in records])
    lines = [header]
    for record, row in zip(records, rows, strict=True):
        lines.append(row)
        if record.reason is not None:
            lines.append(f"    {' '.join(record.reason.split())}")
    return "\n".join(lines)


def _row(record: HistoryRecord) -> Sequence[str]:
    rto, error = record.rto, record.prediction_error_percent
    predicted = _seconds(record.predicted_rto_ms) + ("" if error is None else f" ({error:+.0f} %)")
    rate = record.restored_records_per_s
    return (
        datetime.fromtimestamp(record.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        record.kind.value,
        record.cause,
        record.outcome.value,
        ",".join(record.instances) or "-",
        str(len(record.tasks)),
        _seconds(rto.total_ms),
        *map(_seconds, (rto.detected_ms, rto.decided_ms, rto.owned_ms, rto.first_output_ms)),
        predicted,
        _number(record.rpo.lost_records),
        _number(record.rpo.doubled_records),
        _number(record.restored_records),
        "-" if rate is None else f"{rate:,.0f}",
        _SLO[record.slo_met],
        record.by,
    )


def _seconds(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.2f} s"


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
