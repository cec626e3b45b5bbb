"""Topics of a real broker, verified and repaired by the command."""

from __future__ import annotations

import json

import pytest

from airflow_provider.cli.main import main
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.builders import assigned
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
    assert capsys.readouterr().out.endswith(f"the topics of {application_id} are as it needs them\n")
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


def test_changelog_of_an_application_that_ran_is_not_created_again(
    application_id: str, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    application = Application.create(bootstrap_servers, application_id)
    application.publish(assigned("a", "a", application_id=application_id))
    at = (application_id, "--bootstrap-servers", bootstrap_servers, "--source", f"{application_id}-source")

    assert main(["topics", "repair", *at, "--apply"]) == 3

    assert "Do not create it" in capsys.readouterr().out
    assert TopicAdmin(application.connection).describe(f"{application_id}-state-changelog") is None
