"""What the sensors over an application's control plane have in common."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.control.conditions import Condition
from airflow_provider.errors import DeadlineError, InstanceError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.triggers.control import ControlTrigger, settle

__all__ = ["ControlSensor"]


class ControlSensor(BaseSensorOperator):
    """Base of the sensors that wait for a state of one application; always deferred, holding no worker.

    They look at states, not at passing events, so a state that was reached before the sensor began is seen too.

    Args:
        application_id: the application.
        kafka_conn_id: connection of the Kafka cluster.
        instance_timeout_s: silence of an instance that counts as its end, in seconds.
        deadline_s: how long it may take, in seconds. It is a template field, unlike a sensor's ``timeout``, which is
            left at Airflow's default.
        soft_fail: skip instead of failing when the time is over or the state cannot be reached any more.
        retries: as of every operator; 2 by default.
        retry_delay: as of every operator; 10 seconds by default.
    """

    template_fields: Sequence[str] = ("application_id", "kafka_conn_id", "instance_timeout_s", "deadline_s")
    ui_color = "#dcfce7"

    def __init__(
        self,
        *,
        application_id: str,
        kafka_conn_id: str = KafkaStreamsHook.default_conn_name,
        instance_timeout_s: float = 5.0,
        deadline_s: float | str = 600.0,
        retries: int = 2,
        retry_delay: timedelta = timedelta(seconds=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.application_id = application_id
        self.kafka_conn_id = kafka_conn_id
        self.instance_timeout_s = instance_timeout_s
        self.deadline_s = deadline_s

    def condition(self) -> Condition:
        """What to wait for."""
        raise NotImplementedError

    def execute(self, context: Context) -> NoReturn:
        """Defer at once."""
        condition = self.condition()
        self.log.info("Waiting for %s", condition)
        self.defer(
            trigger=ControlTrigger(
                self.application_id,
                condition,
                kafka_conn_id=self.kafka_conn_id,
                deadline_ms=int((time.time() + float(self.deadline_s)) * 1000),
                instance_timeout_s=float(self.instance_timeout_s),
            ),
            method_name="execute_complete",
        )

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what was seen.

        Raises:
            InstanceError: the state can not be reached any more.
            DeadlineError: it was not reached in time.
        """
        try:
            return settle(event)
        except (DeadlineError, InstanceError) as error:
            if self.soft_fail:
                raise AirflowSkipException(str(error)) from error
            raise
