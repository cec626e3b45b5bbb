"""Triggers: one waits for a condition of an application, one fires when an instance or a task of it fails."""

from __future__ import annotations

import asyncio
import functools
import math
import os
import socket
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_provider.common import json_codec
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_answer import (
    IncidentEvent,
    IncidentFinder,
    answer_incidents,
    ended_holds,
    is_due,
    task_failed_at_ms,
)
from airflow_provider.control.failover.open_problems import unanswered_problem
from airflow_provider.control.history.builder import note_history, resolve_incident
from airflow_provider.control.history.report import new_recoveries
from airflow_provider.control.records.command import TASK_KILLED, Command, CommandKind
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.records.incident import (
    WATCHER,
    WATCHER_INTERVAL_S,
    Incident,
    IncidentKind,
    IncidentRecord,
    Unanswered,
    Watcher,
)
from airflow_provider.control.topics.liveness import Liveness, Timeouts, liveness, running_instances
from airflow_provider.control.waiting.conditions import from_plain
from airflow_provider.control.waiting.evaluation import Condition, WaitResult
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, StatefulStreamsError, TopicMissingError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.hooks.telemetry import WatcherPushes

if TYPE_CHECKING:
    from airflow_provider.control.topics.follower import ControlFollower
    from airflow_provider.control.topics.view import ControlView
    from airflow_provider.control.topics.writer import ControlWriter
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


_POLL_S: Final = 0.25
_AGAIN_S: Final = 2.0
_ANSWER_S: Final = 3.0
"""Shorter than others wait for a sign that it watches."""
_WORKS_S: Final = 5.0
"""How long tasks that were held have to work: longer than a run takes to write of what it takes up."""
_AT_ONCE: Final = 4
"""To write of more would keep it from watching."""
_LATER: Final = (
    AirflowNotFoundException,
    BrokerUnreachableError,
    ConfigurationError,
    TopicMissingError,
    msgspec.DecodeError,
)


class IncidentTrigger(BaseEventTrigger):
    """For an `AssetWatcher`: answers an end without a clean shutdown, a missed heartbeat, a failed task, and fires.

    The answer, a new generation with the `IncidentRecord` that says why, is published here: no run has to be queued and
    no worker to be started before the tasks move. What it does not get published is left to the run that the event
    starts (`FailOverOperator`), which takes up what is, and sees to the repair.

    Incidents are derived from the state in compacted topics, not from passing events. So a triggerer's restart
    misses none of them, and each is fired once: not again while its answer is under way (`refire_after_s`), nor once a
    run has taken it up, unless that holds a task for want of an instance and one runs now
    (`airflow_provider.control.failover.incident_answer`). Its receiver must still expect a second one.

    Silence is only judged after everything that the brokers hold was read: neither a blocked event loop nor a
    broker's outage looks like a silent instance. It never ends by itself: while the topics or the brokers are not
    there, it waits for them.

    It writes into the status topic that it watches (`Watcher`), every two seconds and without waiting for it: a write
    that fails is left out, and the watching goes on. The record names what was fired again since no failover took it
    up: for an event whose DAG is stale, Airflow starts no run and tells the trigger nothing.

    It notes when the tasks of an open incident commit again, before later moves hide it (`NotedRecovery`), and marks an
    incident resolved that moved nothing, once its tasks work again: no repair has anything to do about it.

    The event's payload is an `IncidentEvent` as plain values.

    Args:
        instance_timeout_s: silence longer than this is a missed heartbeat.
        start_timeout_s: the same for an instance that is starting, or never sent a heartbeat.
        stall_timeout_s: a task that commits nothing for longer than this, while its source has records, stands still.
        refire_after_s: an incident that no run has taken up is fired again after this, in case the event was lost.
        num_standby_replicas: wanted standbys per task.
    """

    def __init__(
        self,
        application_id: str,
        kafka_conn_id: str = KafkaStreamsHook.default_conn_name,
        instance_timeout_s: float = Timeouts.instance_s,
        start_timeout_s: float = Timeouts.start_s,
        stall_timeout_s: float = Timeouts.stall_s,
        refire_after_s: float = 30.0,
        num_standby_replicas: int = 1,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.application_id = application_id
        self.kafka_conn_id = kafka_conn_id
        self.instance_timeout_s = instance_timeout_s
        self.start_timeout_s = start_timeout_s
        self.stall_timeout_s = stall_timeout_s
        self.refire_after_s = refire_after_s
        self.num_standby_replicas = num_standby_replicas
        self._fired: dict[str, float] = {}
        self._reported: dict[str, tuple[float, Unanswered]] = {}
        self._wrote_at = float("-inf")
        self._ended: dict[tuple[str, str], float] = {}
        self._not_written = ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class and arguments."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "application_id": self.application_id,
                "kafka_conn_id": self.kafka_conn_id,
                "instance_timeout_s": self.instance_timeout_s,
                "start_timeout_s": self.start_timeout_s,
                "stall_timeout_s": self.stall_timeout_s,
                "refire_after_s": self.refire_after_s,
                "num_standby_replicas": self.num_standby_replicas,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event per incident; never ends by itself."""
        from confluent_kafka import KafkaException

        logged = ""
        while True:
            try:
                async for event in self._events():
                    logged = ""
                    yield event
            except (*_LATER, KafkaException) as error:
                if logged != str(error):
                    logged = str(error)
                    self.log.warning("Not watching %s for now: %s", self.application_id, error)
            await asyncio.sleep(_AGAIN_S)

    async def _events(self) -> AsyncIterator[TriggerEvent]:
        from airflow_provider.control.telemetry.metrics import ApplicationFigures
        from airflow_provider.control.topics.follower import ControlFollower
        from airflow_provider.control.topics.writer import ControlWriter

        connection = await KafkaStreamsHook(self.kafka_conn_id).get_connection_async()
        async with ControlFollower(connection, self.application_id) as follower:
            self.log.info("Watching %s", self.application_id)
            began_at_ms = now_ms()
            writer = await asyncio.to_thread(ControlWriter, connection, self.application_id)
            pushes = WatcherPushes(connection, self.application_id)
            try:
                while True:
                    if not await self._can_judge(follower):
                        pushes.tell(None)
                    else:
                        for event in await self._answered(connection, follower):
                            yield TriggerEvent(to_plain(event))
                        self._note_recoveries(writer, follower.view, began_at_ms)
                        if ended := self._ended_holds(follower.view)[:_AT_ONCE]:
                            await asyncio.to_thread(self._end_holds, connection, follower.view, ended)
                        if (watcher := self._write_that_it_watches(writer, began_at_ms)) is not None:
                            silent_for_s = follower.silent_for_s()
                            pushes.tell(ApplicationFigures(follower.view, silent_for_s, self._timeouts, watcher))
                    await follower.poll(_POLL_S)
            finally:
                pushes.stop()

    def _note_recoveries(self, writer: ControlWriter, view: ControlView, began_at_ms: int) -> None:
        """As soon as they are there, without waiting until that is stored."""
        from confluent_kafka import KafkaException

        for noted in new_recoveries(view, began_at_ms):
            try:
                writer.send(noted)
            except (KafkaException, BufferError) as error:
                self.log.warning("The recovery from %s could not be noted: %s", noted.incident, error)
            view.recoveries[noted.incident] = noted

    def _ended_holds(self, view: ControlView) -> list[IncidentRecord]:
        """Those whose tasks have worked for some time: a run that takes one up meanwhile writes of it, too."""
        now = time.monotonic()
        ended = {(record.incident.id, record.answered_by): record for record in ended_holds(view)}
        self._ended = {key: self._ended.get(key, now) for key in ended}
        return [record for key, record in ended.items() if now - self._ended[key] > _WORKS_S]

    def _end_holds(self, connection: KafkaConnection, view: ControlView, ended: Sequence[IncidentRecord]) -> None:
        """Mark them as resolved; where that cannot be written, that is tried again later."""
        from airflow_provider.control.history.topic import write_history
        from airflow_provider.control.topics.writer import write_control

        history = functools.partial(write_history, connection)
        for record in ended:
            self.log.info("The tasks of %s work again", record.incident.id)
            try:
                view.incidents[record.incident.id] = resolve_incident(
                    record,
                    view,
                    at_ms=now_ms(),
                    note=lambda noted: note_history(history, self.application_id, [noted], warn=self.log.warning),
                    write=lambda resolved: write_control(
                        connection, self.application_id, resolved, timeout_s=_ANSWER_S
                    ),
                )
            except StatefulStreamsError as error:
                self.log.warning("%s could not be marked as resolved: %s", record.incident.id, error)
                # As if they worked only from then on.
                self._ended[record.incident.id, record.answered_by] = time.monotonic() + self.refire_after_s

    def _write_that_it_watches(self, writer: ControlWriter, began_at_ms: int) -> Watcher | None:
        """Once an interval, without waiting until it is stored.

        Returns:
            What was written, or was to be; None where it is not time.
        """
        from confluent_kafka import KafkaException

        now = time.monotonic()
        if now - self._wrote_at < WATCHER_INTERVAL_S:
            return None
        self._wrote_at = now
        watcher = Watcher(
            application_id=self.application_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            began_at_ms=began_at_ms,
            sent_at_ms=now_ms(),
            unanswered=tuple(one for at, one in self._reported.values() if now - at > self.refire_after_s),
        )
        try:
            writer.send(watcher)
        except (KafkaException, BufferError) as error:
            if self._not_written != str(error):
                self._not_written = str(error)
                self.log.warning("%s is watched, but that could not be written: %s", self.application_id, error)
        return watcher

    async def _can_judge(self, follower: ControlFollower) -> bool:
        """Whether what is silent now is silent itself; asks the brokers before any silence gets long."""
        now = time.monotonic()
        assignment = follower.view.assignment
        names = [n for n in (assignment.instances if assignment else ()) if self._may_speak(follower, n)]
        follower.silence.expect(names, now)
        long = follower.silence.longest_s(names, now) > self.instance_timeout_s / 2
        if follower.hearing and not long:
            return True
        return await follower.confirm()

    @staticmethod
    def _may_speak(follower: ControlFollower, instance: str) -> bool:
        status = follower.view.statuses.get(instance)
        return status is None or status.state.alive

    async def _answered(self, connection: KafkaConnection, follower: ControlFollower) -> Sequence[IncidentEvent]:
        """The events of what is due, answered here where that can be."""
        undecided, untaken = await self._due(follower)
        events = [self._event(incident, follower) for incident in undecided]
        if events:
            try:
                await asyncio.to_thread(self._answer, connection, events)
            except StatefulStreamsError as error:
                self.log.warning("Not answered here, but by a run of the failover DAG: %s", error)
        return [*events, *(self._event(incident, follower) for incident in untaken)]

    def _answer(self, connection: KafkaConnection, events: Sequence[IncidentEvent]) -> None:
        """Decide and publish; once, because a run tries again.

        Raises:
            StatefulStreamsError: nothing was published, or not all of it.
        """
        from airflow_provider.control.topics.publisher import AssignmentPublisher

        finder = IncidentFinder(
            answered_by=f"{WATCHER}{socket.gethostname()}/{now_ms()}",  # another name each time: it has no tries
            timeouts=self._timeouts,
            num_standby_replicas=self.num_standby_replicas,
            by_hand=False,
            events=tuple(events),
        )
        publisher = AssignmentPublisher(connection, self.application_id, _ANSWER_S)
        answer_incidents(publisher.view, [event.incident for event in events], finder, publisher.publish, now_ms)

    async def _due(self, follower: ControlFollower) -> tuple[Sequence[Incident], Sequence[Incident]]:
        """What is to be answered, and what is answered and was taken up by no run."""
        now, view = time.monotonic(), follower.view
        found = self._found(follower)
        if any(incident.kind is IncidentKind.GENERATION_LOST for incident in found):
            # Of two topics, the assignment that a status speaks of may only not have been read yet.
            found = self._found(follower) if await follower.confirm() else ()

        running = running_instances(view.statuses, follower.silent_for_s(), self._timeouts)
        undecided = [one for one in found if is_due(one, view, running, self.num_standby_replicas, now_ms=now_ms())]
        untaken = [one.incident for one in view.unresolved_incidents if not one.taken_up]
        # One that sent a heartbeat again, and falls silent again, fires again.
        known = {incident.id for incident in (*found, *untaken)}
        self._fired = {id: at for id, at in self._fired.items() if id in known}
        open_ones = {incident.id: incident for incident in (*untaken, *undecided)}
        due = {id for id in open_ones if now - self._fired.get(id, float("-inf")) > self.refire_after_s}
        self._fired.update(dict.fromkeys(due, now))
        first = {id: (now, Unanswered.of(incident, now_ms())) for id, incident in open_ones.items()}
        self._reported = {id: self._reported.get(id, reported) for id, reported in first.items()}
        for id in due:
            at, reported = self._reported[id]
            if at < now:
                by_watcher = open_ones[id] in untaken
                problem = unanswered_problem(self.application_id, reported, now_ms(), by_watcher=by_watcher)
                self.log.warning("%s", problem)
        decide = [incident for incident in undecided if incident.id in due]
        again = due - {incident.id for incident in decide}
        return decide, [incident for incident in untaken if incident.id in again]

    def _found(self, follower: ControlFollower) -> tuple[Incident, ...]:
        return detect(
            follower.view.assignment,
            follower.view.statuses,
            follower.silent_for_s(),
            self._timeouts,
            follower.view.heard_at_ms,
        )

    def _event(self, incident: Incident, follower: ControlFollower) -> IncidentEvent:
        silent_for_s = follower.silent_for_s()
        failed_at_ms = task_failed_at_ms(incident, follower.view)
        if failed_at_ms is None:
            failed_at_ms = follower.view.last_heard_ms(incident.instance, incident.incarnation)
        self.log.info("Incident %s: %s", incident.id, incident.evidence)
        return IncidentEvent(
            incident=incident,
            application_id=self.application_id,
            kafka_conn_id=self.kafka_conn_id,
            detected_at_ms=now_ms(),
            silent={
                name: follower.view.heard_at_ms.get(name, 0)
                for name, status in sorted(follower.view.statuses.items())
                if liveness(status, silent_for_s.get(name, 0.0), self._timeouts) is Liveness.SILENT
            },
            instance_timeout_s=self.instance_timeout_s,
            start_timeout_s=self.start_timeout_s,
            stall_timeout_s=self.stall_timeout_s,
            num_standby_replicas=self.num_standby_replicas,
            failed_at_ms=failed_at_ms,
        )

    @property
    def _timeouts(self) -> Timeouts:
        return Timeouts(self.instance_timeout_s, self.start_timeout_s, self.stall_timeout_s)
