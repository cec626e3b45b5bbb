"""Waits until a failure would cost no more than is promised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.bases.arguments import parse_seconds
from airflow_provider.control.outlook.predicted_rto import rto_basis
from airflow_provider.control.waiting.conditions import Condition, PredictedRtoWithin
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.sensors.control import ControlSensor


class PredictedRtoSensor(ControlSensor):
    """Waits until the predicted RTO of every task is within a bound.

    It predicts (see `airflow_provider.control.outlook.predicted_rto`) by the history as it was when the
    sensor began, or at each poke, and by the lags of now.

    Args:
        max_rto_s: the bound, in seconds.
        kwargs: see `ControlSensor`.

    Returns:
        ``predicted_rto_ms`` by task.

    Raises:
        DeadlineError: it took too long; says which task would take how long, and why.
        TopicMissingError: the application has no history.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "max_rto_s")

    def __init__(self, *, application_id: str, max_rto_s: float | str, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.max_rto_s = max_rto_s

    def condition(self) -> Condition:
        """What to wait for."""
        history = KafkaStreamsHook(self.kafka_conn_id).read_history(self.application_id)
        return PredictedRtoWithin(
            max_rto_s=parse_seconds("max_rto_s", self.max_rto_s), basis=rto_basis(history, {}, self.timeouts)
        )
