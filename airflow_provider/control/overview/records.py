"""What is read beside the control topics: history and metrics, as far as they can be had soon."""

from __future__ import annotations

from typing import Final

from airflow_provider.common.clock import now_ms
from airflow_provider.control.history.topic import read_history
from airflow_provider.control.outlook.losses import LATELY_MS
from airflow_provider.control.outlook.metrics_topic import read_metrics
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection

_HISTORY_MS: Final = 180 * 86_400_000
_HISTORY_S: Final = 5.0
METRICS_MS: Final = LATELY_MS + 180_000
"""With a record that is older than what is looked at."""


def known_history(cluster: KafkaConnection, application_id: str) -> tuple[HistoryRecord, ...] | None:
    """The history of half a year; empty where the application has none, None where it could not be read soon."""
    try:
        return read_history(cluster, application_id, since=now_ms() - _HISTORY_MS, timeout_s=_HISTORY_S)
    except TopicMissingError:
        return ()
    except BrokerUnreachableError:
        return None


def known_metrics(
    cluster: KafkaConnection, application_id: str, within_ms: int = METRICS_MS
) -> tuple[MetricsRecord, ...] | None:
    """The metrics of the last minutes; None where the application has none, or they could not be read soon."""
    try:
        return read_metrics(cluster, application_id, since=now_ms() - within_ms, timeout_s=_HISTORY_S)
    except (TopicMissingError, BrokerUnreachableError, ConfigurationError):
        return None
