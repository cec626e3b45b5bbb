"""What the watcher promises: nothing lost, once an incident, no false alarm."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.status import InstanceState, InstanceStatus, TaskState, TaskStatus
from airflow_provider.control.writer import ControlWriter
from airflow_provider.embedded.broker import EmbeddedBroker
from airflow_provider.embedded.settings import BrokerSettings
from airflow_provider.topics import TopicAdmin, control_specs
from airflow_provider.triggers.incident import IncidentTrigger
from tests.builders import active, assigned, standby
from tests.integration.airflow.conftest import Application

TIMEOUT_S = 2.0


class Watch:
    """A running trigger and the events that it fired."""

    def __init__(self, trigger: IncidentTrigger) -> None:
        self.fired: list[dict[str, Any]] = []
        self._trigger = trigger

    async def run(self) -> None:
        async for event in self._trigger.run():
            self.fired.append(event.payload)

    @property
    def ids(self) -> list[str]:
        return [payload["incident"]["instance"] for payload in self.fired]

    async def until(self, number: int, deadline_s: float = 10.0) -> None:
        deadline = time.monotonic() + deadline_s
        while len(self.fired) < number:
            assert time.monotonic() < deadline, f"waited {deadline_s:g} s for {number} events, got {self.fired}"
            await asyncio.sleep(0.005)


@asynccontextmanager
async def watching(application: Application, **settings: Any) -> AsyncIterator[Watch]:
    watch = Watch(IncidentTrigger(application.id, instance_timeout_s=TIMEOUT_S, **settings))
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def heartbeats(application: Application, *statuses: InstanceStatus) -> AsyncIterator[Callable[[str], object]]:
    """Sends them from a thread of its own, as other processes would; gives a way to silence one."""
    beating = {status.instance: status for status in statuses}
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def beat() -> None:
        writer = ControlWriter(application.connection, application.id)
        while not stop.is_set():
            for status in list(beating.values()):
                writer.send(status)
            time.sleep(0.2)
        writer.close()

    future = loop.run_in_executor(None, beat)
    try:
        yield beating.pop
    finally:
        stop.set()
        await future


def status(
    application: Application, name: str, *tasks: TaskStatus, state: InstanceState = InstanceState.RUNNING
) -> InstanceStatus:
    return InstanceStatus(application.id, name, 1, state, tasks=tasks, exit_code=-9 if not state.alive else None)


@pytest.fixture
def pair(application: Application) -> tuple[InstanceStatus, InstanceStatus]:
    """Two instances, each active for one task and standby for the other's."""
    application.publish(assigned("a b", "b a", application_id=application.id))
    return status(application, "a", active(0), standby(1)), status(application, "b", active(1), standby(0))


def ended(healthy: InstanceStatus) -> InstanceStatus:
    return replace(healthy, state=InstanceState.ENDED, tasks=(), exit_code=-9)


def test_end_is_told_the_moment_it_is_written(application: Application, pair: tuple[InstanceStatus, ...]) -> None:
    async def run() -> dict[str, Any]:
        async with heartbeats(application, pair[1]), watching(application) as watch:
            await asyncio.to_thread(application.write, pair[0])
            await asyncio.sleep(1.5)
            assert not watch.fired
            await asyncio.to_thread(application.write, ended(pair[0]))
            await watch.until(1)
            return watch.fired[0]

    payload = asyncio.run(run())

    assert payload["incident"]["kind"] == "instance_ended"
    assert payload["application_id"] == application.id
    assert payload["detected_at_ms"] - application.view().heard_at_ms["a"] < 250


def test_silence_is_told_after_the_timeout_and_only_of_the_silent(
    application: Application, pair: tuple[InstanceStatus, ...]
) -> None:
    async def run() -> None:
        async with heartbeats(application, *pair) as silence, watching(application) as watch:
            await asyncio.sleep(1.0)
            silence("a")
            began = time.monotonic()
            await watch.until(1)
            assert TIMEOUT_S - 0.5 < time.monotonic() - began < TIMEOUT_S + 1.5
            (payload,) = watch.fired
            assert (payload["incident"]["kind"], payload["silent"]) == ("heartbeat_missed", ["a"])

    asyncio.run(run())


def test_failed_task_is_told(application: Application, pair: tuple[InstanceStatus, ...]) -> None:
    failed = replace(pair[0], tasks=(active(0, TaskState.FAILED, error="boom", error_kind="StoreCorruptedError"),))

    async def run() -> None:
        async with heartbeats(application, pair[1]), watching(application) as watch:
            await asyncio.to_thread(application.write, failed)
            await watch.until(1)
            assert watch.fired[0]["incident"]["error_kind"] == "StoreCorruptedError"

    asyncio.run(run())


def test_incident_is_told_once_until_the_answer_is_overdue(
    application: Application, pair: tuple[InstanceStatus, ...]
) -> None:
    async def run() -> None:
        async with heartbeats(application, pair[1]), watching(application, refire_after_s=2.5) as watch:
            await asyncio.to_thread(application.write, ended(pair[0]))
            await watch.until(1)
            await asyncio.sleep(1.5)
            assert len(watch.fired) == 1
            await watch.until(2)

    asyncio.run(run())


def test_answered_incident_is_not_told_again(application: Application, pair: tuple[InstanceStatus, ...]) -> None:
    incident = Incident(application.id, IncidentKind.INSTANCE_ENDED, "a", 1, (0,), "killed", generation=1)

    async def run() -> None:
        async with heartbeats(application, pair[1]), watching(application, refire_after_s=0.5) as watch:
            await asyncio.to_thread(application.write, IncidentRecord(incident, "run", 1, 2, 1))
            await asyncio.to_thread(application.write, ended(pair[0]))
            await asyncio.sleep(1.5)
            assert not watch.fired

    asyncio.run(run())


def test_nothing_that_happened_while_no_triggerer_ran_is_lost(
    application: Application, pair: tuple[InstanceStatus, ...]
) -> None:
    async def run() -> None:
        async with heartbeats(application, pair[1]):
            async with watching(application) as before:
                await asyncio.sleep(0.5)
            await asyncio.to_thread(application.write, ended(pair[0]))
            async with watching(application) as after:
                await after.until(1)
            assert not before.fired
            assert after.ids == ["a"]

    asyncio.run(run())


def test_restart_does_not_tell_what_was_answered_meanwhile(
    application: Application, pair: tuple[InstanceStatus, ...]
) -> None:
    async def run() -> None:
        async with heartbeats(application, pair[1]):
            await asyncio.to_thread(application.write, pair[0], ended(pair[0]))
            answer = Assignment(application.id, 2, assigned("b", "b").tasks)
            await asyncio.to_thread(application.publish, answer)
            async with watching(application) as watch:
                await asyncio.sleep(1.5)
                assert not watch.fired

    asyncio.run(run())


def test_blocked_event_loop_is_no_silence(application: Application, pair: tuple[InstanceStatus, ...]) -> None:
    async def run() -> None:
        async with heartbeats(application, *pair), watching(application) as watch:
            await asyncio.sleep(1.0)
            for _ in range(2):
                time.sleep(2 * TIMEOUT_S)  # what another trigger must not do, and does
                await asyncio.sleep(0.7)
            assert not watch.fired

    asyncio.run(run())


def test_death_behind_a_blocked_event_loop_is_found(application: Application, pair: tuple[InstanceStatus, ...]) -> None:
    async def run() -> None:
        async with heartbeats(application, *pair) as silence, watching(application) as watch:
            await asyncio.sleep(1.0)
            silence("a")
            time.sleep(2 * TIMEOUT_S)
            await watch.until(1)
            assert watch.ids == ["a"]

    asyncio.run(run())


def test_brokers_outage_is_no_silence_and_the_watch_goes_on(
    tmp_path: Path, application_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider.connection import KafkaConnection

    with EmbeddedBroker(BrokerSettings.on_free_ports(tmp_path, die_with_parent=True)) as own:
        application = Application(application_id, KafkaConnection(own.bootstrap_servers))
        TopicAdmin(application.connection).ensure(control_specs(application_id))
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_STREAMS_DEFAULT", f"kafka-streams://{own.bootstrap_servers}")
        application.publish(assigned("a b", "b a", application_id=application_id))
        a, b = status(application, "a", active(0), standby(1)), status(application, "b", active(1), standby(0))

        async def run() -> None:
            async with heartbeats(application, a, b) as silence, watching(application) as watch:
                await asyncio.sleep(1.0)
                await asyncio.to_thread(own.kill)
                await asyncio.sleep(2 * TIMEOUT_S)
                await asyncio.to_thread(own.start)
                await asyncio.sleep(2 * TIMEOUT_S)
                assert not watch.fired
                silence("a")
                await watch.until(1, deadline_s=20.0)
                assert watch.ids == ["a"]

        asyncio.run(run())


def test_watch_waits_for_topics_that_are_not_there_yet(
    application_id: str, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider.connection import KafkaConnection

    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_STREAMS_DEFAULT", f"kafka-streams://{bootstrap_servers}")
    application = Application(application_id, KafkaConnection(bootstrap_servers))

    async def run() -> None:
        async with watching(application) as watch:
            await asyncio.sleep(0.5)
            await asyncio.to_thread(TopicAdmin(application.connection).ensure, control_specs(application_id))
            await asyncio.to_thread(application.publish, assigned("a", application_id=application_id))
            await asyncio.to_thread(application.write, ended(status(application, "a")))
            await watch.until(1)

    asyncio.run(run())
