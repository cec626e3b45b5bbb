"""What a condition looks at besides the control topics, while it is waited for."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from typing import Final

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.topic import read_history
from airflow_provider.control.outlook.metrics_forecasts import ChangelogGrowth, changelog_growths
from airflow_provider.control.outlook.metrics_topic import read_metrics
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.waiting.conditions import Needs
from airflow_provider.kafka.connection import KafkaConnection

__all__ = ["ConditionRecords"]

_EVERY_S: Final = 20.0
_READ_S: Final = 10.0


class ConditionRecords:
    """Reads and works out what a condition needs, again and again, in a thread: it would hold up an event loop.

    Args:
        application_id: the application.
        needs: of the condition.
    """

    def __init__(self, application_id: str, needs: Needs) -> None:
        self._application_id = application_id
        self._needs = needs
        self._read_at = -math.inf
        self.history: Sequence[HistoryRecord] = ()
        self.growths: Mapping[TaskId, ChangelogGrowth] = {}

    async def refresh(self, connection: KafkaConnection) -> None:
        """Read, where something is needed and was not read for 20 s.

        Args:
            connection: the cluster.

        Raises:
            TopicMissingError: the application has no history, or no metrics topic.
            BrokerUnreachableError: the end of a topic was not reached in time.
        """
        if time.monotonic() - self._read_at < _EVERY_S:
            return
        application_id, needs = self._application_id, self._needs
        if needs.history:
            self.history = await asyncio.to_thread(read_history, connection, application_id, timeout_s=_READ_S)
        if needs.growth_s is not None:
            self.growths = await asyncio.to_thread(_growths, connection, application_id, needs.growth_s)
        self._read_at = time.monotonic()


def _growths(connection: KafkaConnection, application_id: str, seconds: float) -> Mapping[TaskId, ChangelogGrowth]:
    now = now_ms()
    records = read_metrics(connection, application_id, now - round(1000 * seconds), _READ_S)
    return changelog_growths(records, now)
