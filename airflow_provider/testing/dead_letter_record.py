"""A dead letter as a record of its topic."""

from __future__ import annotations

from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.common.task_id import TaskId
from airflow_provider.testing.in_memory_log import Record


def dead_letter_record(letter: DeadLetter) -> Record:
    """The record, with headers that say where it was and why it was left out."""
    headers = {name: value for name, value in letter.headers() if isinstance(value, bytes)}
    return Record(key=letter.key, value=letter.value, timestamp_ms=letter.timestamp_ms, headers=headers)


def read_dead_letter(record: Record) -> DeadLetter:
    """The inverse of `dead_letter_record`."""
    fields = {name.rpartition(".")[2]: value.decode() for name, value in record.headers.items()}
    return DeadLetter(
        key=record.key,
        value=record.value,
        topic=fields["topic"],
        partition=int(fields["partition"]),
        offset=int(fields["offset"]),
        timestamp_ms=record.timestamp_ms,
        task=TaskId.parse(fields["task"]),
        error=fields["exception"],
        message=fields["message"],
        stack=fields["stacktrace"],
    )
