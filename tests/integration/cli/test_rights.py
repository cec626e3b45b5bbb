"""Who has the rights of a viewer sees everything and changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider.cli.main import main
from airflow_provider.common.clock import now_ms
from airflow_provider.common.files import create_private_file
from airflow_provider.control.application.rights import Role
from airflow_provider.control.history.topic import write_history
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.history import HistoryKind, HistoryRecord
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.control.topics.writer import ControlWriter, write_control
from airflow_provider.errors import AccessError, ConfigurationError
from airflow_provider.kafka.names import history_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from tests.builders import assigned, placed
from tests.integration.cli.conftest import Launch
from tests.integration.guarded_broker import LOGIN, GuardedBroker
from tests.integration.launch.application import Application
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("guarded")


@pytest.fixture
def application(guarded: GuardedBroker, application_id: str) -> Application:
    made = Application.create(guarded.bootstrap_servers, application_id)
    made.publish(assigned("-", "-", application_id=application_id))
    drill = HistoryRecord(
        application_id=application_id, kind=HistoryKind.DRILL, id="d", cause="crash", at_ms=now_ms(), by="test"
    )
    write_history(made.connection, application_id, drill)
    source, sink = f"{application_id}-source", f"{application_id}-sink"
    guarded.grant(application_id, Role.VIEWER, source=source, sink=sink, user=guarded.guest)
    return made


@pytest.fixture
def at(application: Application, guarded: GuardedBroker, tmp_path: Path) -> tuple[str, ...]:
    """The application, as who may write to no topic at all is told to name it."""
    config = tmp_path / "viewer.properties"
    create_private_file(config, LOGIN.format(guarded.guest).encode())
    return application.id, "--config", str(config)


def test_viewer_sees_status_history_and_metrics_and_changes_nothing(
    application: Application, at: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", *at]) == 0
    assert capsys.readouterr().out.startswith(f"{application.id}, generation 1, ")
    assert main(["describe", *at]) == 0
    assert main(["history", *at]) == 0
    assert "crash" in capsys.readouterr().out
    assert main(["metrics", *at]) == 0
    capsys.readouterr()

    assert main(["assign", *at, "--instances", "a"]) == 1

    # And no more: who may use all of the application's transactional ids could fence its tasks.
    needed = f"grant the connection's user Describe and Write on the transactional id '{application.id}-assignment' ("
    said = capsys.readouterr().err
    assert "AccessError" in said
    assert needed in said
    found = application.view().assignment
    assert found is not None
    assert placed(found) == ["-", "-"]


HISTORY = "grant the connection's user Describe and Write on the topic {}-history"
PUBLISHER = "grant the connection's user Describe and Write on the transactional id '{}-assignment'"


@pytest.mark.parametrize(
    ("described", "status", "refused"),
    [
        pytest.param(False, 1, "topic '{}-state-changelog' at .* is not authorized", id="begun"),
        pytest.param(True, 4, HISTORY, id="skipped"),
    ],
)
def test_viewers_drill_names_the_right_that_it_lacks(
    described: bool,
    status: int,
    refused: str,
    application: Application,
    at: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    if described:
        describe(application)

    assert main(["drill", *at, "--blackout", "mon-sun"]) == status

    said = capsys.readouterr().err
    assert re.search(refused.format(application.id), said)
    assert "SystemError" not in said


def test_right_that_is_lacked_is_named_also_where_the_client_knows_it_before_it_writes(
    application: Application, guarded: GuardedBroker
) -> None:
    topic = history_topic(application.id)
    record = HistoryRecord(
        application_id=application.id, kind=HistoryKind.DRILL, id="e", cause="crash", at_ms=now_ms(), by="test"
    )
    with ControlWriter(guarded.guest, application.id) as writer:

        def refused() -> bool:
            try:
                writer._producer.produce(topic, b"", b"")  # noqa: SLF001 - without handing over why
            except KafkaException:
                return True
            return False

        wait_until(refused, 30, "the brokers to give the client no id")
        for _ in range(2):
            with pytest.raises(AccessError, match=HISTORY.format(application.id)):
                writer.write(record)


def test_publisher_names_the_right_that_it_lacks_where_it_is_refused_while_it_still_writes(
    application: Application, guarded: GuardedBroker
) -> None:
    source, sink = f"{application.id}-source", f"{application.id}-sink"
    guarded.grant(application.id, Role.AIRFLOW, source=source, sink=sink)
    guarded.deny(ResourceType.TOPIC, history_topic(application.id), AclOperation.WRITE)
    drill = HistoryRecord(
        application_id=application.id, kind=HistoryKind.DRILL, id="e", cause="crash", at_ms=now_ms(), by="test"
    )
    publisher = AssignmentPublisher(guarded.user, application.id)

    # To make ready this many takes far longer than the brokers' refusal of the first.
    with pytest.raises(AccessError, match=r"Describe and Write on the topics .*-history"):
        publisher.publish(None, *[drill] * 100_000)


def test_viewers_drill_of_a_whole_application_injures_nothing(
    application: Application, at: tuple[str, ...], launch_instance: Launch, capsys: pytest.CaptureFixture[str]
) -> None:
    describe(application)
    for name in ("a", "b"):
        launch_instance(application, name)
    application.publish(assigned("a b", "b a", generation=2, application_id=application.id))
    before = {name: one.incarnation for name, one in application.view().statuses.items()}

    assert main(["drill", *at, "--answer", "--shared-sink"]) == 1

    said = capsys.readouterr().err
    assert PUBLISHER.format(application.id) in said
    assert "SystemError" not in said
    after = application.view()
    assert {name: one.incarnation for name, one in after.statuses.items() if one.state.alive} == before
    assert (after.faults, after.commands, after.incidents) == ({}, {}, {})


def describe(application: Application) -> None:
    source, sink = f"{application.id}-source", f"{application.id}-sink"
    application.write(JobDescription.of_topics(application.id, sources=[source], outputs=[sink]))


def test_what_a_viewer_would_write_is_refused_by_its_topic(application: Application, guarded: GuardedBroker) -> None:
    drill = HistoryRecord(
        application_id=application.id, kind=HistoryKind.DRILL, id="e", cause="crash", at_ms=now_ms(), by="test"
    )
    stop = Command(id="c", kind=CommandKind.STOP, instance="a")

    with pytest.raises(ConfigurationError, match=rf"grant .* Describe and Write on the topic {application.id}-history"):
        write_history(guarded.guest, application.id, drill)
    with pytest.raises(ConfigurationError, match=rf"grant .* Describe and Write on the topic {application.id}-assignm"):
        write_control(guarded.guest, application.id, stop)


def test_offsets_of_a_topic_that_a_viewer_may_not_see_are_refused(
    application: Application, guarded: GuardedBroker
) -> None:
    changelog = f"{application.id}-state-changelog"

    with pytest.raises(ConfigurationError, match=rf"{changelog}' at .* is not authorized"):
        TopicAdmin(guarded.guest).latest_offsets(changelog, [0])
