"""What the watcher promises: nothing lost, once an incident, no false alarm.

What it answers itself changes what there is to find, so here it only fires; `test_failover` has its answers.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.topic import read_history
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.history import HistoryOutcome
from airflow_provider.control.records.incident import Action, Decision, Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import InstanceState, InstanceStatus, ProcessStatus, TaskState, TaskStatus
from airflow_provider.control.topics.writer import ControlWriter
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import control_specs
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.settings import BrokerSettings
from tests.builders import active, assigned, standby
from tests.integration.airflow.running import UnheardTrigger
from tests.integration.launch.application import Application

TIMEOUT_S = 2.0
SENTINEL = "z"
"""An instance whose only purpose is to end: what was written before its end was judged when that end is reported."""
_incarnations = itertools.count(1)


class Watch:
    """A running trigger and the events that it fired, those of the sentinel apart."""

    def __init__(self, application: Application, trigger: UnheardTrigger) -> None:
        self.fired: list[dict[str, Any]] = []
        self._sentinels: set[int] = set()
        self._application = application
        self._trigger = trigger

    async def run(self) -> None:
        async for event in self._trigger.run():
            incident = event.payload["incident"]
            if incident["instance"] == SENTINEL:
                self._sentinels.add(incident["incarnation"])
            else:
                self.fired.append(event.payload)

    @property
    def ids(self) -> list[str]:
        return [payload["incident"]["instance"] for payload in self.fired]

    async def until(self, number: int, deadline_s: float = 10.0) -> None:
        await until(lambda: len(self.fired) >= number, lambda: f"{number} events, got {self.fired}", deadline_s)

    async def catch_up(self, deadline_s: float = 10.0) -> None:
        """Until everything that is written now was read and judged."""
        number = next(_incarnations)
        end = replace(ended(status(self._application, SENTINEL)), incarnation=number)
        await asyncio.to_thread(self._application.write, end)
        await until(lambda: number in self._sentinels, lambda: f"the end of {SENTINEL}, {number}", deadline_s)


async def until(reached: Callable[[], bool], what: Callable[[], str], deadline_s: float = 10.0) -> None:
    deadline = time.monotonic() + deadline_s
    while not reached():
        assert time.monotonic() < deadline, f"waited {deadline_s:g} s for {what()}"
        await asyncio.sleep(0.005)


async def heard_again(application: Application, since_ms: int, *instances: str) -> None:
    """Until each has sent a heartbeat since then, by the broker's clock."""
    deadline = time.monotonic() + 20.0
    while True:
        heard_at_ms = (await asyncio.to_thread(application.view)).heard_at_ms
        if all(heard_at_ms[name] > since_ms for name in instances):
            return
        assert time.monotonic() < deadline, f"waited 20 s for heartbeats since {since_ms}, got {heard_at_ms}"


@asynccontextmanager
async def watching(application: Application, **settings: Any) -> AsyncIterator[Watch]:
    watch = Watch(application, UnheardTrigger(application.id, instance_timeout_s=TIMEOUT_S, **settings))
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def heartbeats(application: Application, *statuses: InstanceStatus) -> AsyncIterator[Callable[[str], object]]:
    """Sends them from a thread of its own, as other processes would; gives a way to silence one.

    The first of each are stored when this begins.
    """
    beating = {status.instance: status for status in statuses}
    stop = threading.Event()
    loop = asyncio.get_running_loop()

    def beat() -> None:
        writer = ControlWriter(application.connection, application.id)
        while not stop.wait(0.2):
            for status in list(beating.values()):
                writer.send(status)
        writer.close()

    await asyncio.to_thread(application.write, *statuses)
    future = loop.run_in_executor(None, beat)
    try:
        yield beating.pop
    finally:
        stop.set()
        await future


def status(
    application: Application, name: str, *tasks: TaskStatus, state: InstanceState = InstanceState.RUNNING
) -> InstanceStatus:
    return InstanceStatus(
        application_id=application.id,
        instance=name,
        incarnation=1,
        state=state,
        tasks=tasks,
        process=ProcessStatus(exit_code=-9 if not state.alive else None),
    )


def incident_of(name: str, application: Application) -> Incident:
    return Incident(
        application_id=application.id,
        kind=IncidentKind.INSTANCE_ENDED,
        instance=name,
        incarnation=1,
        tasks=(TaskId(0, 0),),
        evidence="killed",
        generation=1,
    )


@pytest.fixture
def pair(application: Application) -> tuple[InstanceStatus, InstanceStatus]:
    """Two instances, each active for one task and standby for the other's."""
    application.publish(assigned("a b", "b a", SENTINEL, application_id=application.id))
    return status(application, "a", active(0), standby(1)), status(application, "b", active(1), standby(0))


def ended(healthy: InstanceStatus) -> InstanceStatus:
    return replace(healthy, state=InstanceState.ENDED, tasks=(), process=ProcessStatus(exit_code=-9))


async def assert_nothing_but(watch: Watch, application: Application, sentinel: InstanceStatus) -> None:
    """No incident lies in what was written until now: the end of the last instance by name is the first that fires."""
    await asyncio.to_thread(application.write, ended(sentinel))
    await watch.until(1)
    assert watch.ids == [sentinel.instance]


def test_end_is_reported_the_moment_it_is_written(application: Application, pair: tuple[InstanceStatus, ...]) -> None:
    async def run() -> dict[str, Any]:
        async with heartbeats(application, *pair) as silence, watching(application) as watch:
            await watch.catch_up()
            assert not watch.fired
            silence("a")
            await asyncio.to_thread(application.write, ended(pair[0]))
            await watch.until(1)
            return watch.fired[0]

    payload = asyncio.run(run())

    assert payload["incident"]["kind"] == "instance_ended"
    assert payload["application_id"] == application.id
    assert payload["detected_at_ms"] - application.view().heard_at_ms["a"] < TIMEOUT_S * 1000


def test_silence_is_reported_after_the_timeout_and_only_of_the_silent(
    application: Application, pair: tuple[InstanceStatus, ...]
) -> None:
    async def run() -> None:
        async with heartbeats(application, *pair) as silence, watching(application) as watch:
            await watch.catch_up()
            silence("a")
            await watch.until(1)
            (payload,) = watch.fired
            assert (payload["incident"]["kind"], list(payload["silent"])) == ("heartbeat_missed", ["a"])
            heard_at_ms = (await asyncio.to_thread(application.view)).heard_at_ms["a"]
            assert payload["failed_at_ms"] == heard_at_ms
            assert payload["detected_at_ms"] - heard_at_ms >= TIMEOUT_S * 1000

    asyncio.run(run())


def test_failed_task_is_reported(application: Application, pair: tuple[InstanceStatus, ...]) -> None:
    failed = replace(pair[0], tasks=(active(0, TaskState.FAILED, error="boom", error_kind="StoreCorruptedError"),))

    async def run() -> None:
        async with heartbeats(application, pair[1]), watching(application) as watch:
            await asyncio.to_thread(application.write, failed)
            await watch.until(1)
            assert watch.fired[0]["incident"]["error_kind"] == "StoreCorruptedError"

    asyncio.run(run())


def test_incident_is_reported_once_until_the_answer_is_overdue(
    application: Application, pair: tuple[InstanceStatus, ...]
) -> None:
    async def run() -> None:
        async with heartbeats(application, pair[1]), watching(application, refire_after_s=5.0) as watch:
            await asyncio.to_thread(application.write, ended(pair[0]))
            await watch.until(1)
            await asyncio.to_thread(application.write, ended(pair[1]))
            await watch.until(2)
            assert watch.ids == ["a", "b"]
            await watch.until(3, deadline_s=20.0)
            assert watch.ids[:3] == ["a", "b", "a"]

    asyncio.run(run())


def test_answered_incident_is_not_reported_again(application: Application, pair: tuple[InstanceStatus, ...]) -> None:
    incident = incident_of("a", application)

    async def run() -> None:
        async with heartbeats(application, pair[1]), watching(application, refire_after_s=0.5) as watch:
            await asyncio.to_thread(
                application.write,
                IncidentRecord(incident=incident, answered_by="run", detected_at_ms=1, decided_at_ms=2, generation=1),
            )
            await asyncio.to_thread(application.write, ended(pair[0]))
            await assert_nothing_but(watch, application, pair[1])

    asyncio.run(run())


def test_nothing_that_happened_while_no_triggerer_ran_is_lost(
    application: Application, pair: tuple[InstanceStatus, ...]
) -> None:
    async def run() -> None:
        async with heartbeats(application, pair[1]):
            async with watching(application) as before:
                await before.catch_up()
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
            answer = Assignment(application_id=application.id, generation=2, tasks=assigned("b", "b").tasks)
            await asyncio.to_thread(application.publish, answer)
            async with watching(application) as watch:
                await assert_nothing_but(watch, application, pair[1])

    asyncio.run(run())


def test_blocked_event_loop_is_no_silence(application: Application, pair: tuple[InstanceStatus, ...]) -> None:
    async def run() -> None:
        async with heartbeats(application, *pair), watching(application) as watch:
            await watch.catch_up()
            for _ in range(2):
                time.sleep(2 * TIMEOUT_S)  # what another trigger must not do, and does
                await watch.catch_up()
            await assert_nothing_but(watch, application, pair[1])

    asyncio.run(run())


def test_death_behind_a_blocked_event_loop_is_found(application: Application, pair: tuple[InstanceStatus, ...]) -> None:
    async def run() -> None:
        async with heartbeats(application, *pair) as silence, watching(application) as watch:
            await watch.catch_up()
            silence("a")
            time.sleep(2 * TIMEOUT_S)
            await watch.until(1)
            assert watch.ids == ["a"]

    asyncio.run(run())


@pytest.mark.long
def test_brokers_outage_is_no_silence_and_the_watch_goes_on(
    tmp_path: Path, application_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedBroker(BrokerSettings.on_free_ports(tmp_path, die_with_parent=True)) as own:
        application = Application(application_id, KafkaConnection(own.bootstrap_servers))
        TopicAdmin(application.connection).ensure(control_specs(application_id))
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_STREAMS_DEFAULT", f"kafkastreams://{own.bootstrap_servers}")
        application.publish(assigned("a b", "b a", SENTINEL, application_id=application_id))
        a, b = status(application, "a", active(0), standby(1)), status(application, "b", active(1), standby(0))

        async def run() -> None:
            async with heartbeats(application, a, b) as silence, watching(application) as watch:
                await watch.catch_up()
                await asyncio.to_thread(own.kill)
                await asyncio.sleep(2 * TIMEOUT_S)  # how long the outage lasts
                await asyncio.to_thread(own.start)
                await heard_again(application, now_ms(), "a", "b")
                await watch.catch_up()
                assert not watch.fired
                silence("a")
                await watch.until(1, deadline_s=20.0)
                assert watch.ids == ["a"]

        asyncio.run(run())


def test_publisher_that_stands_still_in_its_transaction_silences_none(
    application: Application, pair: tuple[InstanceStatus, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    stands_still, goes_on = threading.Event(), threading.Event()

    class StandingStill(Producer):
        def commit_transaction(self, *given: Any) -> None:
            self.flush(10.0)
            stands_still.set()
            goes_on.wait(60.0)
            super().commit_transaction(*given)

    async def run() -> None:
        async with heartbeats(application, *pair), watching(application) as watch:
            await asyncio.sleep(1.0)
            monkeypatch.setattr("airflow_provider.kafka.transactional_producer.Producer", StandingStill)
            record = IncidentRecord(
                incident=incident_of("c", application),
                answered_by="run",
                detected_at_ms=1,
                decided_at_ms=2,
                generation=2,
            )
            following = assigned("a b", "b a", generation=2, application_id=application.id)
            publishing = asyncio.create_task(asyncio.to_thread(application.publish, following, record))
            try:
                assert await asyncio.to_thread(stands_still.wait, 20.0)
                await asyncio.sleep(3 * TIMEOUT_S)
                await assert_nothing_but(watch, application, pair[1])
            finally:
                goes_on.set()
                await publishing

    asyncio.run(run())


def test_watch_waits_for_topics_that_are_not_there_yet(
    application_id: str, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_STREAMS_DEFAULT", f"kafkastreams://{bootstrap_servers}")
    application = Application(application_id, KafkaConnection(bootstrap_servers))

    async def run() -> None:
        async with watching(application) as watch:
            await until(lambda: f"Not watching {application_id}" in capfd.readouterr().out, lambda: "the warning")
            await asyncio.to_thread(TopicAdmin(application.connection).ensure, control_specs(application_id))
            await asyncio.to_thread(application.publish, assigned("a", application_id=application_id))
            await asyncio.to_thread(application.write, ended(status(application, "a")))
            await watch.until(1)

    asyncio.run(run())


def test_hold_is_over_and_in_the_history_once_its_task_works_again(
    application: Application, pair: tuple[InstanceStatus, ...]
) -> None:
    failed = replace(pair[0], tasks=(active(0, TaskState.FAILED, error="no JSON", error_kind="DecodeError"),))
    works = replace(pair[0], tasks=(active(0, owned_at_ms=now_ms(), first_commit_at_ms=now_ms()),))
    incident = replace(incident_of("a", application), kind=IncidentKind.TASK_FAILED, active_since=1)
    hold = IncidentRecord(
        incident=incident,
        answered_by="run",
        detected_at_ms=now_ms() - 1,
        decided_at_ms=now_ms(),
        generation=1,
        plan=(Decision(task=TaskId(0, 0), action=Action.HOLD, to=None, evidence="it would fail anywhere"),),
        failed_at_ms=1,
    )

    def kept() -> IncidentRecord:
        return application.view().incidents[incident.id]

    async def run() -> None:
        await asyncio.to_thread(application.write, hold)
        async with heartbeats(application, pair[1]), watching(application) as watch:
            async with heartbeats(application, failed):
                await watch.catch_up()
                assert (await asyncio.to_thread(kept)).resolved_at_ms is None
            async with heartbeats(application, works):
                deadline = time.monotonic() + 30.0
                while (await asyncio.to_thread(kept)).resolved_at_ms is None:
                    assert time.monotonic() < deadline, "waited 30 s for the end of the hold"
            assert watch.fired == []

    asyncio.run(run())

    (noted,) = read_history(application.connection, application.id)
    assert (noted.id, noted.outcome) == (incident.id, HistoryOutcome.PASSED)
    assert kept().recovery is not None
