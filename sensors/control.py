"""What the sensors over an application's control plane have in common."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException

from airflow_provider.bases.deferrable_control import DeferrableControl
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.waiting.evaluation import Condition, Outcome
from airflow_provider.errors import DeadlineError, InstanceError, TopicMissingError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook

_BEYOND_MS: Final = 1000
"""A poke listens for so much longer than an instance may be silent, so that it can tell a silent one from a living."""


class SensorDeadlineError(DeadlineError, AirflowSensorTimeout):
    """A `DeadlineError` in a sensor: its time is over for all tries, so there is none more."""


class ControlSensor(DeferrableControl, BaseSensorOperator):
    """Base of the sensors that wait for a state of one application.

    They look at states, not at passing events, so a state that was reached before the sensor began is seen too. They
    do not wait for an application to be created: one without control topics fails them (see `DeferrableControl`).

    With ``deferrable`` the triggerer follows the application, and ``mode`` and ``poke_interval`` have no meaning.
    Otherwise a worker pokes, and Airflow's ``mode``, ``poke_interval``, ``exponential_backoff``, ``max_wait`` and
    ``silent_fail`` mean what they do for any sensor.

    Args:
        timeout: Airflow's name for ``timeout_s``, which is a template field as on the operators; it wins.
        kwargs: ``application_id`` and the others of `DeferrableControl` and of Airflow's sensors; with ``soft_fail`` or
            ``never_fail``, it skips instead of failing when the time is over or the state cannot be reached any more.

    Raises:
        ConfigurationError: an argument or the connection is not what it has to be.
        InstanceError: the state cannot be reached any more.
        SensorDeadlineError: it was not reached in time.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    ui_color = "#dcfce7"

    _until_ms: int | None = None
    """When the time of the sensor that pokes is over, epoch ms; None for never."""

    def __init__(
        self,
        *,
        timeout: timedelta | float | None = None,
        timeout_s: float | str | None = 600.0,
        **kwargs: Any,
    ) -> None:
        if timeout is not None:
            timeout_s = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        super().__init__(timeout=timeout, timeout_s=timeout_s, **kwargs)

    def condition(self) -> Condition:
        """What to wait for."""
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        """Return where the state is reached, else defer; or poke until it is."""
        condition = self.condition()
        if self.deferrable:
            return self.wait_for(condition)
        # `poke` ends it, because it knows what was seen, and counts for all tries.
        self.timeout = math.inf
        self._until_ms = self.until_ms()
        return super().execute(context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once: listen until the state is reached, for as long at the most as a living instance may be silent.

        One look cannot tell an instance that starts slowly from one that is lost while it starts, unless its launcher
        reports the end.
        """
        ends_ms = now_ms() + int(self.timeouts.instance_s * 1000) + _BEYOND_MS
        if self._until_ms is not None and self._until_ms > now_ms():
            ends_ms = min(ends_ms, self._until_ms)  # past it, it still looks once
        trigger = self.trigger(self.condition(), ends_ms)
        connection = KafkaStreamsHook(self.kafka_conn_id).connection
        found = asyncio.run(trigger.wait(connection))
        if found.outcome is Outcome.WAITING and found.missing is not None and self.has_no_control_topics():
            found = dataclasses.replace(found, outcome=Outcome.FAILED)
        over = self._until_ms is not None and now_ms() >= self._until_ms
        if found.outcome is Outcome.WAITING and not over:
            self.log.info("Waiting for %s: %s", found.waited_for, found.seen)
            return PokeReturnValue(is_done=False)
        if found.outcome is Outcome.WAITING:
            found = dataclasses.replace(found, waited_s=self.wait_s)
        return PokeReturnValue(is_done=True, xcom_value=self.execute_complete(context, to_plain(found)))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> Any:
        """Return what was seen."""
        try:
            return super().execute_complete(context, event)
        except (DeadlineError, InstanceError, TopicMissingError) as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from error
            if isinstance(error, DeadlineError):
                raise SensorDeadlineError(str(error)) from error
            raise
