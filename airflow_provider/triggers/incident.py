"""Watches an application and fires when an instance or a task of it fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider.control.incident import Incident, detect
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, TopicMissingError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook

if TYPE_CHECKING:
    from airflow_provider.control.follower import ControlFollower

__all__ = ["IncidentTrigger"]

_POLL_S: Final = 0.25
_AGAIN_S: Final = 2.0
_LATER: Final = (
    AirflowNotFoundException,
    BrokerUnreachableError,
    ConfigurationError,
    TopicMissingError,
    msgspec.DecodeError,
)


class IncidentTrigger(BaseEventTrigger):
    """For an `AssetWatcher`: fires on an end without a goodbye, a missed heartbeat, a failed task.

    Incidents are derived from the state in compacted topics, not from passing events. So a triggerer's restart
    misses none of them, and each is fired once: not again while its answer is under way (`refire_after_s`), never
    once its `IncidentRecord` exists. Whoever receives the event must still expect a second one.

    Silence is only judged after everything that the brokers hold was read: neither a blocked event loop nor a
    broker's outage looks like a silent instance. It never ends by itself: while the topics or the brokers are not
    there, it waits for them.

    The event's payload: ``incident`` (as a dict), ``application_id``, ``kafka_conn_id``, ``detected_at_ms``,
    ``silent`` (instances that were not heard of within the timeout), ``instance_timeout_s``,
    ``num_standby_replicas``.

    Args:
        application_id: the application.
        kafka_conn_id: connection of the Kafka cluster.
        instance_timeout_s: silence longer than this is a missed heartbeat.
        start_timeout_s: the same for an instance that is starting.
        refire_after_s: an incident without a record is fired again after this, in case the event was lost.
        num_standby_replicas: passed on to whoever answers.
    """

    def __init__(
        self,
        application_id: str,
        kafka_conn_id: str = KafkaStreamsHook.default_conn_name,
        instance_timeout_s: float = 5.0,
        start_timeout_s: float = 120.0,
        refire_after_s: float = 30.0,
        num_standby_replicas: int = 1,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.application_id = application_id
        self.kafka_conn_id = kafka_conn_id
        self.instance_timeout_s = instance_timeout_s
        self.start_timeout_s = start_timeout_s
        self.refire_after_s = refire_after_s
        self.num_standby_replicas = num_standby_replicas
        self._fired: dict[str, float] = {}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class and arguments."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "application_id": self.application_id,
                "kafka_conn_id": self.kafka_conn_id,
                "instance_timeout_s": self.instance_timeout_s,
                "start_timeout_s": self.start_timeout_s,
                "refire_after_s": self.refire_after_s,
                "num_standby_replicas": self.num_standby_replicas,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """An event an incident, for ever."""
        from confluent_kafka import KafkaException

        told = ""
        while True:
            try:
                async for event in self._events():
                    told = ""
                    yield event
            except (*_LATER, KafkaException) as error:
                if told != str(error):
                    told = str(error)
                    self.log.warning("Not watching %s for now: %s", self.application_id, error)
            await asyncio.sleep(_AGAIN_S)

    async def _events(self) -> AsyncIterator[TriggerEvent]:
        from airflow_provider.control.follower import ControlFollower

        connection = await KafkaStreamsHook(self.kafka_conn_id).get_connection_async()
        async with ControlFollower(connection, self.application_id) as follower:
            self.log.info("Watching %s", self.application_id)
            while True:
                if await self._can_judge(follower):
                    for incident in self._due(follower):
                        yield TriggerEvent(self._payload(incident, follower))
                await follower.poll(_POLL_S)

    async def _can_judge(self, follower: ControlFollower) -> bool:
        """Whether what is silent now is silent itself; asks the brokers before any silence gets long."""
        now = time.monotonic()
        assignment = follower.view.assignment
        names = [n for n in (assignment.instances if assignment else ()) if self._speaks(follower, n)]
        long = follower.silence.longest_s(names, now) > self.instance_timeout_s / 2
        if follower.hearing and not long:
            return True
        return await follower.confirm()

    @staticmethod
    def _speaks(follower: ControlFollower, instance: str) -> bool:
        status = follower.view.statuses.get(instance)
        return status is not None and status.state.alive

    def _due(self, follower: ControlFollower) -> Sequence[Incident]:
        now = time.monotonic()
        found = detect(
            follower.view.assignment,
            follower.view.statuses,
            follower.silent_for_s(),
            self.instance_timeout_s,
            self.start_timeout_s,
        )
        due = [
            incident
            for incident in found
            if incident.id not in follower.view.incidents
            and now - self._fired.get(incident.id, float("-inf")) > self.refire_after_s
        ]
        self._fired.update({incident.id: now for incident in due})
        return due

    def _payload(self, incident: Incident, follower: ControlFollower) -> dict[str, Any]:
        silent = follower.silent_for_s()
        payload: dict[str, Any] = {
            "incident": msgspec.to_builtins(incident),
            "application_id": self.application_id,
            "kafka_conn_id": self.kafka_conn_id,
            "detected_at_ms": time.time_ns() // 1_000_000,
            "silent": sorted(name for name, seconds in silent.items() if seconds > self.instance_timeout_s),
            "instance_timeout_s": self.instance_timeout_s,
            "num_standby_replicas": self.num_standby_replicas,
        }
        self.log.info("Incident %s: %s", incident.id, incident.evidence)
        return payload
