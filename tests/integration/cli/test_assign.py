"""The first assignment and an even load, by the command, over a real broker."""

from __future__ import annotations

import json

import pytest

from airflow_provider.cli.main import main
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import changelog_spec
from tests.builders import placed
from tests.integration.cli.conftest import Launch
from tests.integration.launch.application import Application


def test_tasks_are_assigned_to_the_instances_that_run(
    bootstrap_servers: str, application_id: str, launch_instance: Launch, capsys: pytest.CaptureFixture[str]
) -> None:
    application = Application.create(bootstrap_servers, application_id)
    TopicAdmin(application.connection).ensure([changelog_spec(application_id, "state", 2)])
    at = (application_id, "--bootstrap-servers", bootstrap_servers)

    assert main(["assign", *at]) == 1
    assert "No instance of" in capsys.readouterr().err

    for name in ("a", "b"):
        launch_instance(application, name)
    assert main(["assign", *at]) == 0
    assert capsys.readouterr().out.startswith("generation 1, published\n")
    assert main(["assign", *at, "--instances", "a", "--standbys", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"]["0_1"] == {"active": "a", "standbys": []}

    assert main(["assign", *at, "--balance"]) == 0
    found = application.view()
    assert found.assignment is not None
    assert sorted(placed(found.assignment)) == ["a b", "b a"]


def test_commands_in_a_loop_leave_a_repair_its_turn_while_they_change_nothing(
    bootstrap_servers: str, application_id: str, launch_instance: Launch
) -> None:
    application = Application.create(bootstrap_servers, application_id)
    TopicAdmin(application.connection).ensure([changelog_spec(application_id, "state", 2)])
    for name in ("a", "b"):
        launch_instance(application, name)
    assert main(["assign", application_id, "--bootstrap-servers", bootstrap_servers]) == 0
    repair = AssignmentPublisher(application.connection, application_id)
    assert repair.view.assignment is not None

    for command in ("failover", "assign"):
        assert main([command, application_id, "--bootstrap-servers", bootstrap_servers]) == 0

    repair.publish(repair.view.assignment.next(repair.view.assignment.tasks, "the repair", carried_out=0))


def test_load_that_cannot_be_even_for_want_of_an_instance_is_said_at_once_unless_it_shall_wait(
    bootstrap_servers: str, application_id: str, launch_instance: Launch, capsys: pytest.CaptureFixture[str]
) -> None:
    application = Application.create(bootstrap_servers, application_id)
    TopicAdmin(application.connection).ensure([changelog_spec(application_id, "state", 2)])
    launch_instance(application, "a")
    balance = ["assign", application_id, "--bootstrap-servers", bootstrap_servers, "--balance"]

    assert main([*balance, "--instances", "a,b", "--timeout", "60"]) == 1
    said = capsys.readouterr().err
    assert "the assignment names b, which has never run" in said
    assert "run JOB --instance b" in said
    assert "--wait" in said

    assert main([*balance, "--wait", "--timeout", "2"]) == 1
    assert "DeadlineError: Waited 2" in capsys.readouterr().err
    launch_instance(application, "b")
    assert main([*balance, "--wait", "--timeout", "60"]) == 0
    found = application.view()
    assert found.assignment is not None
    assert sorted(placed(found.assignment)) == ["a b", "b a"]
