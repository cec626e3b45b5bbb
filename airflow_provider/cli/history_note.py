"""Noting in the history what a command did."""

from __future__ import annotations

from functools import partial

from airflow_provider.cli.waiting import say
from airflow_provider.control.history.builder import note_history
from airflow_provider.control.history.topic import write_history
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.kafka.connection import KafkaConnection


def note(cluster: KafkaConnection, application_id: str, *records: HistoryRecord) -> bool:
    """As `note_history` does; the warning goes to standard error.

    Returns:
        Whether they are stored.
    """
    return note_history(partial(write_history, cluster), application_id, records, warn=say)
