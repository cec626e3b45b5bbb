"""Publishers of assignments that meet at a real broker."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider.control.history.topic import read_history
from airflow_provider.control.records.history import HistoryKind, HistoryRecord
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.errors import FencedError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import control_specs, history_spec
from tests.builders import assigned


def test_publisher_that_a_newer_one_took_over_from_says_so_by_its_error_alone(
    bootstrap_servers: str,
    application_id: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure(control_specs(application_id))
    first = AssignmentPublisher(connection, application_id)
    AssignmentPublisher(connection, application_id).publish(assigned("a", application_id=application_id))

    with caplog.at_level(logging.DEBUG), pytest.raises(FencedError, match="A newer publisher"):
        first.publish(assigned("b", application_id=application_id))

    said = "".join(capfd.readouterr()) + caplog.text
    assert "fenced" not in said.lower()


def test_publisher_that_is_taken_over_from_in_its_transaction_says_so(
    bootstrap_servers: str, application_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client then raises whatever polls it, after the error of the call that ended too."""
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure(control_specs(application_id))
    first = AssignmentPublisher(connection, application_id)
    produce = first._produce  # noqa: SLF001

    def taken_over(value: Any) -> None:
        produce(value)
        AssignmentPublisher(connection, application_id).publish(assigned("a", application_id=application_id))

    monkeypatch.setattr(first, "_produce", taken_over)

    with pytest.raises(FencedError, match="A newer publisher"):
        first.publish(assigned("b", application_id=application_id))


def test_what_the_history_keeps_is_published_with_the_rest_or_not_at_all(
    bootstrap_servers: str, application_id: str
) -> None:
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure([*control_specs(application_id), history_spec(application_id)])
    begun = HistoryRecord(
        application_id=application_id, kind=HistoryKind.DRILL, id="d1", cause="crash", at_ms=1, by="run"
    )
    first = AssignmentPublisher(connection, application_id)
    second = AssignmentPublisher(connection, application_id)

    with pytest.raises(FencedError):
        first.publish(None, begun)
    assert read_history(connection, application_id) == ()
    second.publish(None, begun)
    assert read_history(connection, application_id) == (begun,)
