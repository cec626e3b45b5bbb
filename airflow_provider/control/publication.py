"""Publishing by an act that can be done again, and clearing what has outlived its use behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from airflow_provider.common.clock import now_ms
from airflow_provider.control.fenced_retry import retry_fenced
from airflow_provider.control.publisher import AssignmentPublisher
from airflow_provider.control.retention import outdated
from airflow_provider.control.writer import ControlWriter
from airflow_provider.kafka.connection import KafkaConnection

__all__ = ["publish_by"]

T = TypeVar("T")


def publish_by(connection: KafkaConnection, application_id: str, act: Callable[[AssignmentPublisher], T]) -> T:
    """Let `act` read and publish; when another publisher takes over, let it read and publish again.

    What has outlived its use in the control topics (`airflow_provider.control.retention`) is removed after that; what
    is not removed in time is left for the next time.

    Args:
        connection: the cluster.
        application_id: the application.
        act: called with a publisher that has just read the newest state.

    Raises:
        FencedError: others took over again and again.
        TopicMissingError: the application's topics do not exist.
        BrokerUnreachableError: no broker answered.
    """

    def publish() -> T:
        with AssignmentPublisher(connection, application_id) as publisher:
            result = act(publisher)
        if gone := outdated(publisher.view, now_ms()):
            with ControlWriter(connection, application_id) as writer:
                for value in gone:
                    writer.forget(value)
        return result

    return retry_fenced(publish, application_id)
