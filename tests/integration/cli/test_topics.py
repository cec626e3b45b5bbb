"""Topics of a real broker, verified and repaired by the command."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from airflow_provider.cli.main import main
from airflow_provider.control.topics.commits import COMMIT_KEY
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec
from tests.builders import assigned, instance
from tests.integration.launch.application import Application


def test_topics_of_a_new_application_are_created_and_a_changed_setting_is_set_back(
    application_id: str, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, changelog = f"{application_id}-source", f"{application_id}-state-changelog"
    admin = TopicAdmin(KafkaConnection(bootstrap_servers))
    admin.ensure([TopicSpec(name=source, partitions=2)])
    at = (application_id, "--bootstrap-servers", bootstrap_servers, "--source", source)

    assert main(["topics", "verify", *at]) == 3
    assert main(["topics", "repair", *at]) == 3
    assert f"--apply would create {changelog} with 2 partition(s)" in capsys.readouterr().out
    assert admin.describe(changelog) is None  # nothing was done

    assert main(["topics", "repair", *at, "--apply"]) == 0
    *_, said, of_transactions = capsys.readouterr().out.splitlines()
    assert said == f"the topics of {application_id} are as it needs them"
    assert of_transactions.startswith("transaction.version of the brokers is 2;")
    assert main(["topics", "verify", *at]) == 0

    admin.alter_setting(changelog, "cleanup.policy", "delete")
    capsys.readouterr()
    assert main(["topics", "verify", *at, "--json"]) == 3
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["topic"], finding["repair"]) == (changelog, f"set cleanup.policy=compact on {changelog}")
    assert main(["topics", "repair", *at, "--apply"]) == 0
    repaired = admin.describe(changelog)
    assert repaired is not None
    assert repaired.config["cleanup.policy"] == "compact"
    assert repaired.config["segment.bytes"] == str(256 << 20)  # other settings stay


def test_changelog_of_an_application_that_ran_is_created_again_only_to_be_rebuilt(
    application_id: str, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    application = Application.create(bootstrap_servers, application_id)
    application.publish(assigned("a", "a", application_id=application_id))
    at = (application_id, "--bootstrap-servers", bootstrap_servers, "--source", f"{application_id}-source")

    assert main(["topics", "repair", *at, "--apply"]) == 3

    assert "Do not create it yet" in capsys.readouterr().out
    admin, changelog = TopicAdmin(application.connection), f"{application_id}-state-changelog"
    assert admin.describe(changelog) is None

    assert main(["topics", "repair", *at, "--empty", changelog, "--apply"]) == 0

    assert f"done: create {changelog} with 2 partition(s)" in capsys.readouterr().out
    created = admin.describe(changelog)
    assert created is not None
    assert created.config["cleanup.policy"] == "compact"


def test_changelog_of_a_new_store_is_created_where_the_state_is_in_another(
    application_id: str, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    application = Application.create(bootstrap_servers, application_id)
    application.publish(assigned("a", application_id=application_id))
    TopicAdmin(application.connection).ensure([changelog_spec(application_id, "state", 1)])
    application.write(replace(instance("a", incarnation=5), application_id=application_id))
    at = (application_id, "--bootstrap-servers", bootstrap_servers, "--store", "new", "--apply")

    assert main(["topics", "repair", *at]) == 3  # nothing says that the state is not in the one that is missing
    assert "Do not create it yet" in capsys.readouterr().out

    producer = Producer(application.connection.to_client_config())
    producer.produce(
        f"{application_id}-state-changelog",
        b'{"sequence": 1, "generation": 1, "instance": "a", "incarnation": 5, "sources": {}}',
        COMMIT_KEY,
        partition=0,
    )
    assert producer.flush(30) == 0

    assert main(["topics", "repair", *at]) == 0
    assert f"done: create {application_id}-new-changelog with 1 partition(s)" in capsys.readouterr().out
