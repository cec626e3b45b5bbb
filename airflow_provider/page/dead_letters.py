"""The newest dead letters of an application: why records were left out."""

from __future__ import annotations

from typing import Any, Final

from airflow_provider.control.records.job_description import JobDescription, TopicKind
from airflow_provider.control.topics.span_reader import SpanReader
from airflow_provider.errors import BrokerUnreachableError, StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import ERROR_HEADER

_TIMEOUT_S: Final = 3.0


def newest_dead_letters(connection: KafkaConnection, job: JobDescription | None) -> list[dict[str, Any]]:
    """Of each dead-letter topic how many records it holds, and of the newest the task and the error, not its value.

    A topic that cannot be read has ``problem`` instead, and where no broker answered for one, so have those after it.
    """
    found, away = list[dict[str, Any]](), None
    for topic in () if job is None else job.topics:
        if topic.kind is TopicKind.DEAD_LETTERS and job is not None:
            if away is not None:
                found.append({"topic": topic.name, "problem": away})
                continue
            try:
                found.append(_newest(connection, job.application_id, topic.name, topic.partitions or 1))
            except StatefulStreamsError as error:
                found.append({"topic": topic.name, "problem": str(error)})
                if isinstance(error, BrokerUnreachableError):
                    away = f"not asked for now: {error}"
    return found


def _newest(connection: KafkaConnection, application_id: str, topic: str, partitions: int) -> dict[str, Any]:
    with SpanReader(connection, application_id, topic, timeout_s=_TIMEOUT_S) as reader:
        bounds = {number: reader.bounds(number) for number in range(partitions)}
        # The last offset of a transaction is its mark, so one record lies some offsets before the end.
        last = {number: (max(low, end - 2), end) for number, (low, end) in bounds.items() if end > low}
        records = list(reader.read(last)) if last else []
    count = sum(end - low for low, end in bounds.values())
    newest = max(records, key=lambda record: record.timestamp()[1], default=None)
    if newest is None:
        return {"topic": topic, "offsets": count}
    headers: dict[str, Any] = dict(newest.headers() or ())
    said = {name: _text(headers.get(f"{ERROR_HEADER}{name}")) for name in ("task", "exception", "message")}
    return {"topic": topic, "offsets": count, "at_ms": newest.timestamp()[1], **said}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
