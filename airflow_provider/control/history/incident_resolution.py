"""Marking an incident resolved, once every task has its standbys again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from airflow_provider.control.history.builder import failover_record
from airflow_provider.control.history.report import known_recovery, recovery_of
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.view import ControlView


def resolve_incident(
    record: IncidentRecord,
    view: ControlView,
    *,
    at_ms: int,
    note: Callable[[HistoryRecord], bool],
    write: Callable[[IncidentRecord], None],
    slo_rto_s: float | None = None,
) -> IncidentRecord:
    """Mark an incident resolved and complete its record in the history.

    One that is resolved already keeps when that was; its history gets what is known of it now.

    Args:
        record: what was done about it.
        at_ms: when every task had its standbys again, epoch ms.
        note: stores a record in the history; false where it could not. The incident is then remembered the longer.
        write: stores what is kept of the incident; not called where nothing changed.
        slo_rto_s: the promised RTO in seconds; None where none is, or it is not known.

    Returns:
        What is kept of it.
    """
    found = record
    if record.resolved_at_ms is None:
        record = dataclasses.replace(record, resolved_at_ms=at_ms, recovery=recovery_of(record, view))
    # First the history: what says that it is there can be forgotten.
    if note(failover_record(record, known_recovery(record, view), slo_rto_s)):
        record = dataclasses.replace(record, in_history=True)
    if record != found:
        write(record)
    return record
