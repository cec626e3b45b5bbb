"""Waits for a condition of an application, on behalf of a deferred task."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider.common import json_codec
from airflow_provider.control.records.command import TASK_KILLED, Command, CommandKind
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.waiting.conditions import Condition, WaitResult, from_plain
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook

if TYPE_CHECKING:
    from airflow_provider.kafka.connection import KafkaConnection


class ControlTrigger(BaseTrigger):
    """Follows the control topics of an application until a condition is met, cannot be met, or a deadline passes.

    It judges states, read from the beginning of compacted topics. So nothing is lost that happens before it starts,
    while it moves to another triggerer, or while no triggerer runs; and it fires the same whenever it looks.

    Args:
        condition: what is waited for, or its plain form.
        deadline_ms: epoch ms after which it gives up; None never.
        instance_timeout_s: silence of an instance that counts as its end.
        start_timeout_s: the same while it starts.
        stop_on_kill: the process that is asked to stop when a person ends or clears the waiting task, or its plain
            form; None stops none. A triggerer's restart, a deadline and the trigger's own end never stop it.
    """

    def __init__(
        self,
        application_id: str,
        condition: Condition | dict[str, Any],
        kafka_conn_id: str = KafkaStreamsHook.default_conn_name,
        deadline_ms: int | None = None,
        instance_timeout_s: float = Timeouts.instance_s,
        start_timeout_s: float = Timeouts.start_s,
        stop_on_kill: InstanceHandle | dict[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.application_id = application_id
        self.condition = from_plain(condition) if isinstance(condition, dict) else condition
        self.kafka_conn_id = kafka_conn_id
        self.deadline_ms = deadline_ms
        self.instance_timeout_s = instance_timeout_s
        self.start_timeout_s = start_timeout_s
        self.stop_on_kill = (
            json_codec.from_plain(stop_on_kill, InstanceHandle) if isinstance(stop_on_kill, dict) else stop_on_kill
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class and arguments."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "application_id": self.application_id,
                "condition": json_codec.to_plain(self.condition),
                "kafka_conn_id": self.kafka_conn_id,
                "deadline_ms": self.deadline_ms,
                "instance_timeout_s": self.instance_timeout_s,
                "start_timeout_s": self.start_timeout_s,
                "stop_on_kill": None if self.stop_on_kill is None else json_codec.to_plain(self.stop_on_kill),
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, to be read with `result_of`."""
        yield TriggerEvent(json_codec.to_plain(await self.wait()))

    async def on_kill(self) -> None:
        """Stop the instance that the killed task stood for, if that was asked for."""
        if self.stop_on_kill is not None:
            connection = await KafkaStreamsHook(self.kafka_conn_id).get_connection_async()
            await asyncio.to_thread(self.stop_instance, connection)

    def stop_instance(self, connection: KafkaConnection) -> None:
        """Ask the instance that the task stands for to stop, if that was asked for.

        Raises:
            BrokerUnreachableError: the command could not be stored within five seconds.
        """
        if self.stop_on_kill is None:
            return
        from airflow_provider.control.topics.writer import write_control

        command = Command(
            id=f"{TASK_KILLED}{time.time_ns()}",
            kind=CommandKind.STOP,
            instance=self.stop_on_kill.instance,
            incarnation=self.stop_on_kill.incarnation,
        )
        write_control(connection, self.application_id, command, timeout_s=5.0)

    async def wait(self, connection: KafkaConnection | None = None) -> WaitResult:
        """Wait here, in whatever event loop this is.

        Args:
            connection: of the Kafka cluster; None looks it up as a triggerer does.
        """
        from airflow_provider.control.waiting.condition_wait import ConditionWait

        async def connect() -> KafkaConnection:
            return connection or await KafkaStreamsHook(self.kafka_conn_id).get_connection_async()

        give_up_at = math.inf
        if self.deadline_ms is not None:
            # From here on by a clock that is never set.
            give_up_at = time.monotonic() + self.deadline_ms / 1000 - time.time()
        wait = ConditionWait(
            self.application_id,
            self.condition,
            connect,
            timeouts=lambda: Timeouts(self.instance_timeout_s, self.start_timeout_s),
            give_up_at=give_up_at,
            say=lambda seen: self.log.info("Waiting for %s: %s", self.condition, seen),
        )
        return await wait.result()


def result_of(event: dict[str, Any] | None, limit: str = "timeout_s") -> dict[str, Any]:
    """The result of a `ControlTrigger`'s event.

    Args:
        event: as it came; None without one.
        limit: what says how long the wait may last.

    Raises:
        TopicMissingError: the application has no control topics.
        InstanceError: what was waited for cannot happen any more.
        DeadlineError: the time was over; says what was waited for and what was last seen.
        StatefulStreamsError: the event is none of a `ControlTrigger`.
    """
    try:
        return json_codec.from_plain(event, WaitResult).value(limit)
    except msgspec.ValidationError as error:
        raise StatefulStreamsError(
            f"The task was resumed without an event of its trigger ({error}): clear it to try again."
        ) from error
