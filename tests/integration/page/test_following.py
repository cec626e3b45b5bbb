"""Applications that are followed on a real broker."""

from __future__ import annotations

import dataclasses
import json
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from fastapi.testclient import TestClient

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.incident import Watcher
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.codec import Value, to_key, to_value, topic_of
from airflow_provider.control.topics.publisher import publish_by
from airflow_provider.control.topics.writer import write_control
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import control_specs
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.page import api
from airflow_provider.page.applications import Application
from airflow_provider.page.following import FollowedApplication, Followers
from tests.brokers import settings_of_broker
from tests.builders import active, assigned, instance, standby
from tests.waiting import wait_until

MANY: Final = 50
TASKS: Final = 64


@pytest.fixture
def follow() -> Iterator[Callable[..., FollowedApplication]]:
    started: list[FollowedApplication] = []

    def followed(*arguments: Any, **more: Any) -> FollowedApplication:
        started.append(FollowedApplication(*arguments, **more))
        return started[-1]

    yield followed
    for one in started:
        one.stop()
    for one in started:
        one.join(30)


def said(followed: FollowedApplication) -> Any:
    return json.loads(followed.answers().card)


def test_application_is_followed_from_before_its_first_deployment_on(
    bootstrap_servers: str, application_id: str, follow: Callable[..., FollowedApplication]
) -> None:
    connection = KafkaConnection(bootstrap_servers)
    followed = follow(Application(id=application_id, dags={}), lambda _: connection)
    wait_until(lambda: "was not deployed yet" in said(followed)["reasons"][0]["text"], 60, "it to miss the topics")

    TopicAdmin(connection).ensure(control_specs(application_id))
    wait_until(lambda: said(followed)["reasons"][0]["text"] == "nothing is assigned yet", 60, "it to read them")
    publish_by(connection, application_id, lambda own: own.publish(assigned("a b", application_id=application_id)))
    for status in (instance("a", active(0)), instance("b", standby(0))):
        write_control(connection, application_id, dataclasses.replace(status, application_id=application_id))

    wait_until(lambda: said(followed)["standbys_warm"] == 1, 30, "it to see the standby")
    assert said(followed)["word"] == "degraded"  # nobody watches


def test_application_whose_instances_all_died_while_nobody_looked_is_never_called_safe(
    bootstrap_servers: str, application_id: str, follow: Callable[..., FollowedApplication]
) -> None:
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure(control_specs(application_id))
    publish_by(connection, application_id, lambda own: own.publish(assigned("a b", application_id=application_id)))
    for status in (instance("a", active(0)), instance("b", standby(0))):
        write_control(connection, application_id, dataclasses.replace(status, application_id=application_id))
    watcher = Watcher(application_id=application_id, host="h9", pid=5, began_at_ms=1_000, sent_at_ms=1_000)
    write_control(connection, application_id, watcher)

    followed, words = follow(Application(id=application_id, dags={}), lambda _: connection), set[str]()

    def red() -> bool:
        words.add(said(followed)["word"])
        return "standing still" in words

    wait_until(red, 60, "it to see that they are silent")
    assert words == {"unknown", "standing still"}


def test_topics_are_looked_at_when_somebody_looks_closely_and_when_the_job_changes(
    bootstrap_servers: str, application_id: str, follow: Callable[..., FollowedApplication]
) -> None:
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure(control_specs(application_id))
    followed = follow(Application(id=application_id, dags={}), lambda _: connection)

    def topics() -> Any:
        return json.loads(followed.answers(closely=True).details).get("topics")

    wait_until(topics, 60, "them to be looked at")
    assert "The job was not described" in topics()["problem"]

    job = JobDescription.of_topics(application_id, stores=())
    write_control(connection, application_id, job)
    wait_until(lambda: (topics() or {}).get("findings"), 60, "the topics of the job to be looked at")

    missing = [f"{application_id}-{name}" for name in ("history", "metrics", "lookups")]
    repair = f"stateful-streams topics repair {application_id} --apply    # create"
    assert [(one["topic"], one["command"]) for one in topics()["findings"]] == [
        (name, f"{repair} {name} with 1 partition(s)") for name in missing
    ]


def test_connection_that_is_missing_is_said_and_looked_up_again(
    bootstrap_servers: str, application_id: str, follow: Callable[..., FollowedApplication]
) -> None:
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure(control_specs(application_id))
    made = threading.Event()

    def connect(conn_id: str) -> KafkaConnection:
        if not made.is_set():
            raise ConfigurationError(f"no connection {conn_id!r}")
        return connection

    followed = follow(Application(id=application_id, dags={}, kafka_conn_id="kafka_eu"), connect)
    wait_until(lambda: said(followed)["reasons"][0]["text"] == "no connection 'kafka_eu'", 30, "it to say so")
    made.set()
    wait_until(lambda: said(followed)["word"] == "standing still", 30, "it to read the topics")


def test_follower_ends_when_nobody_asks_and_begins_again_when_somebody_does(
    bootstrap_servers: str, application_id: str, follow: Callable[..., FollowedApplication]
) -> None:
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure(control_specs(application_id))
    followed = follow(Application(id=application_id, dags={}), lambda _: connection, idle_s=1.0)

    wait_until(lambda: not followed.lives, 30, "its end")
    followed.join(30)
    assert f"page-{application_id}" not in {thread.name for thread in threading.enumerate()}

    followers = Followers(lambda _: connection)
    followers.answers(followed.application)
    assert followers.followed() == [application_id]
    followers.answers(dataclasses.replace(followed.application, num_standby_replicas=0))
    assert followers.followed() == [application_id]
    followers.close()


@contextmanager
def beating(connection: KafkaConnection, of: Mapping[str, Sequence[InstanceStatus]]) -> Iterator[None]:
    """Heartbeats of applications, and of their watchers, each second."""
    producer, ended = Producer(connection.to_client_config()), threading.Event()

    def send(id_: str, value: Value) -> None:
        producer.produce(topic_of(value, id_), to_value(value), to_key(value), partition=0)

    def beat() -> None:
        while not ended.is_set():
            at_ms = time.time_ns() // 1_000_000
            for id_, statuses in of.items():
                for status in statuses:
                    send(id_, dataclasses.replace(status, sent_at_ms=at_ms))
                send(id_, Watcher(application_id=id_, host="h", pid=1, began_at_ms=1, sent_at_ms=at_ms))
            producer.flush(1)
            ended.wait(1.0)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(30)


def beats(application_id: str) -> tuple[Assignment, list[InstanceStatus]]:
    tasks = [TaskId(0, number) for number in range(TASKS)]
    half = TASKS // 2
    pairs = {task: ("a", "b") if task.partition < half else ("b", "a") for task in tasks}
    assignment = Assignment(
        application_id=application_id,
        generation=1,
        tasks={of: TaskAssignment(active=one, standbys=(other,), active_since=1) for of, (one, other) in pairs.items()},
    )
    statuses = [
        dataclasses.replace(
            instance(name, *(active(t) if pairs[t][0] == name else standby(t) for t in tasks), generation=1),
            application_id=application_id,
        )
        for name in ("a", "b")
    ]
    return assignment, statuses


@pytest.mark.long
def test_outage_of_the_brokers_is_not_taken_for_one_of_the_instances(
    tmp_path: Path, follow: Callable[..., FollowedApplication]
) -> None:
    with EmbeddedBroker(settings_of_broker(tmp_path / "kafka")) as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        TopicAdmin(connection).ensure(control_specs("orders"))
        assignment, statuses = beats("orders")
        publish_by(connection, "orders", lambda own: own.publish(assignment))
        with beating(connection, {"orders": statuses}):
            followed = follow(Application(id="orders", dags={}), lambda _: connection)
            wait_until(lambda: said(followed)["word"] == "safe", 60, "all to be well", poll_s=0.2)
            tenant = broker.folder.living_tenant()
            assert tenant is not None
            words = []

            def word() -> str:
                words.append(str(said(followed)["word"]))
                return words[-1]

            tenant.leader.signal_group(signal.SIGSTOP)
            try:
                wait_until(lambda: word() == "unknown", 60, "it to be unknown", poll_s=0.1)
            finally:
                tenant.leader.signal_group(signal.SIGCONT)
            assert said(followed)["reasons"][0]["step"] == "brokers-away"
            wait_until(lambda: word() == "safe", 120, "all to be well again", poll_s=0.1)
            assert set(words) == {"safe", "unknown"}


@pytest.mark.long
def test_poll_of_fifty_applications_of_sixty_four_tasks_takes_little_more_than_of_one(
    bootstrap_servers: str, application_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What authentication and Airflow's database take is not in it; heartbeats come each second meanwhile."""
    connection = KafkaConnection(bootstrap_servers)
    ids = [f"{application_id}-{number}" for number in range(MANY)]
    admin = TopicAdmin(connection)
    for id_ in ids:
        admin.ensure(control_specs(id_))
    of = {id_: beats(id_) for id_ in ids}
    for id_, (assignment, _) in of.items():
        write_control(connection, id_, assignment)
    followers = Followers(lambda _: connection)
    applications = {id_: Application(id=id_, dags={"deploy": f"{id_}_deploy"}) for id_ in ids}
    monkeypatch.setattr(api, "followers", followers)
    shown = [applications]
    monkeypatch.setitem(api.app.dependency_overrides, api.readable_applications, lambda: shown[0])
    try:
        with beating(connection, {id_: statuses for id_, (_, statuses) in of.items()}), TestClient(api.app) as client:

            def cards() -> list[dict[str, Any]]:
                found: list[dict[str, Any]] = client.get("/api/applications").json()["applications"]
                return found

            wait_until(lambda: {one["word"] for one in cards()} == {"safe"}, 240, "all to be seen", poll_s=1.0)
            one = {ids[0]: applications[ids[0]]}
            took_ms: dict[int, list[float]] = {1: [], MANY: []}
            for _ in range(40):
                for shown[0] in (one, applications):
                    began = time.perf_counter()
                    answer = client.get("/api/applications")
                    took_ms[len(shown[0])].append(1000 * (time.perf_counter() - began))
                    assert len(answer.content) > len(shown[0]) * 300
                time.sleep(0.1)  # a browser's pause, so that polls meet all that the followers do
    finally:
        followers.close()
    of_one, of_many = statistics.median(took_ms[1]), statistics.median(took_ms[MANY])
    print(f"a poll took {of_many:.1f} ms, the slowest {max(took_ms[MANY]):.1f} ms; of one application {of_one:.1f} ms")
    assert of_many < 10 * of_one, "a poll is not to read or decide anything"
