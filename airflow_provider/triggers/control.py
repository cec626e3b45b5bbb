"""Waits for a condition of an application, on behalf of a deferred task."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.conditions import Condition, Outcome, Verdict, from_plain, to_plain
from airflow_provider.control.observation import Observation
from airflow_provider.errors import (
    BrokerUnreachableError,
    DeadlineError,
    InstanceError,
    StatefulStreamsError,
    TopicMissingError,
)
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook

if TYPE_CHECKING:
    from airflow_provider.control.follower import ControlFollower

__all__ = ["ControlTrigger", "settle"]

_POLL_S: Final = 0.5
_TELL_S: Final = 2.0
"""Between two lines in the task's log."""


class ControlTrigger(BaseTrigger):
    """Follows the control topics of an application until a condition is met, cannot be met, or a deadline passes.

    It judges states, read from the beginning of compacted topics. So nothing is lost that happens before it starts,
    while it moves to another triggerer, or while no triggerer runs; and it fires the same whenever it looks.

    Args:
        application_id: the application.
        condition: what is waited for, or its plain form.
        kafka_conn_id: connection of the Kafka cluster.
        deadline_ms: epoch ms after which it gives up; None never.
        instance_timeout_s: silence of an instance that counts as its end.
        start_timeout_s: the same while it starts.
        stop_on_kill: the command that is sent when a person ends or clears the waiting task; None sends nothing. A
            triggerer's restart, a deadline and the trigger's own end never send it.
    """

    def __init__(
        self,
        application_id: str,
        condition: Condition | dict[str, Any],
        kafka_conn_id: str = KafkaStreamsHook.default_conn_name,
        deadline_ms: int | None = None,
        instance_timeout_s: float = 5.0,
        start_timeout_s: float = 120.0,
        stop_on_kill: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.application_id = application_id
        self.condition = from_plain(condition) if isinstance(condition, dict) else condition
        self.kafka_conn_id = kafka_conn_id
        self.deadline_ms = deadline_ms
        self.instance_timeout_s = instance_timeout_s
        self.start_timeout_s = start_timeout_s
        self.stop_on_kill = stop_on_kill
        self._give_up_at = float("inf")

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class and arguments."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "application_id": self.application_id,
                "condition": to_plain(self.condition),
                "kafka_conn_id": self.kafka_conn_id,
                "deadline_ms": self.deadline_ms,
                "instance_timeout_s": self.instance_timeout_s,
                "start_timeout_s": self.start_timeout_s,
                "stop_on_kill": self.stop_on_kill,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, to be read with `settle`."""
        yield TriggerEvent(await self._event())

    async def on_kill(self) -> None:
        """Stop the instance that the killed task stood for, if that was asked for."""
        if self.stop_on_kill is None:
            return
        from airflow_provider.control.writer import ControlWriter

        connection = await KafkaStreamsHook(self.kafka_conn_id).get_connection_async()
        command = Command(
            f"kill-{time.time_ns()}",
            CommandKind.STOP,
            self.stop_on_kill["instance"],
            self.stop_on_kill["incarnation"],
        )

        def write() -> None:
            ControlWriter(connection, self.application_id).write(command, timeout_s=5.0)

        await asyncio.to_thread(write)

    async def _event(self) -> dict[str, Any]:
        last = Verdict(Outcome.WAITING, "nothing was read yet")
        began, told_at = time.monotonic(), 0.0
        if self.deadline_ms is not None:
            # From here on by a clock that nobody sets.
            self._give_up_at = began + self.deadline_ms / 1000 - time.time()
        while not self._late():
            try:
                async for verdict in self._verdicts():
                    if verdict.seen != last.seen and time.monotonic() - told_at > _TELL_S:
                        told_at = time.monotonic()
                        self.log.info("Waiting for %s: %s", self.condition, verdict.seen)
                    last = verdict
                    if verdict.outcome is not Outcome.WAITING or self._late():
                        break
            except (BrokerUnreachableError, TopicMissingError) as error:
                last = Verdict(Outcome.WAITING, f"{last.seen}; then: {error}")
                await asyncio.sleep(1.0)
            if last.outcome is not Outcome.WAITING:
                break
        return {
            "outcome": last.outcome.value,
            "waited_for": str(self.condition),
            "waited_s": round(time.monotonic() - began, 1),
            "seen": last.seen,
            "result": last.result,
        }

    async def _verdicts(self) -> AsyncIterator[Verdict]:
        """The condition's verdict after every change, and now and then for the silences."""
        from airflow_provider.control.follower import ControlFollower

        connection = await KafkaStreamsHook(self.kafka_conn_id).get_connection_async()
        async with ControlFollower(connection, self.application_id) as follower:
            while not self._late():
                if follower.hearing or await follower.confirm():
                    verdict = self._judge(follower)
                    # An outage must not look like a silent instance: ask the brokers before giving up.
                    if verdict.outcome is not Outcome.FAILED or await follower.confirm():
                        yield self._judge(follower)
                await follower.poll(_POLL_S)

    def _judge(self, follower: ControlFollower) -> Verdict:
        verdict = self._verdict(follower)
        if not (unreadable := follower.view.unreadable):
            return verdict
        keys = ", ".join(repr(key) for key in sorted(unreadable))
        return dataclasses.replace(verdict, seen=f"{verdict.seen} (records that cannot be read: {keys})")

    def _verdict(self, follower: ControlFollower) -> Verdict:
        return self.condition.verdict(
            Observation(
                follower.view,
                follower.silent_for_s(),
                follower.silence.heard_since(),
                instance_timeout_s=self.instance_timeout_s,
                start_timeout_s=self.start_timeout_s,
            )
        )

    def _late(self) -> bool:
        return time.monotonic() > self._give_up_at


def settle(event: dict[str, Any] | None) -> dict[str, Any]:
    """The result of a `ControlTrigger`'s event.

    Raises:
        InstanceError: what was waited for can not be met any more.
        DeadlineError: the deadline passed; says what was waited for and what was last seen.
        StatefulStreamsError: the event is none of a `ControlTrigger`.
    """
    if event is None:
        raise StatefulStreamsError("The task was resumed without an event: clear it to try again.")
    if event["outcome"] == Outcome.MET.value:
        result: dict[str, Any] = event["result"]
        return result
    if event["outcome"] == Outcome.FAILED.value:
        raise InstanceError(f"Waited for {event['waited_for']}, which can not be any more: {event['seen']}.")
    raise DeadlineError(
        f"Waited {event['waited_s']:g} s for {event['waited_for']}. Last seen: {event['seen']}. "
        "Look at the instances' logs, or allow more time with deadline_s."
    )
