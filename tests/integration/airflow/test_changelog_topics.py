"""The topics of an application."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from airflow_provider.errors import (
    TopicMismatchError,
    TopicMissingError,
)
from airflow_provider.kafka.application_topics import create_topics
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.operators.topics import CreateChangelogTopicsOperator
from tests.integration.airflow.running import context
from tests.integration.launch.application import Application
from tests.waiting import wait_until


def make(application: Application, **more: Any) -> CreateChangelogTopicsOperator:
    given: dict[str, Any] = {"source_topics": f"{application.id}-source", **more}
    return CreateChangelogTopicsOperator(task_id="topics", application_id=application.id, **given)


def test_changelog_has_the_sources_partitions_and_is_compacted(application: Application) -> None:
    made = make(application).execute(context())

    found = TopicAdmin(application.connection).describe(f"{application.id}-state-changelog")
    assert found is not None
    assert (found.partitions, found.config["cleanup.policy"]) == (2, "compact")
    assert (made["partitions"], made["created"]) == (2, [f"{application.id}-state-changelog"])


def test_topics_beside_the_changelogs_are_created_with_it(application: Application) -> None:
    admin = TopicAdmin(application.connection)
    admin.delete([f"{application.id}-metrics"])

    made = make(application).execute(context())

    assert f"{application.id}-metrics" in made["created"]
    found = admin.describe(f"{application.id}-metrics")
    assert found is not None
    assert (found.partitions, found.config["cleanup.policy"]) == (1, "delete")
    assert found.config["retention.ms"] == "604800000"


def test_metrics_topic_that_would_forget_is_refused(application: Application) -> None:
    TopicAdmin(application.connection).alter_setting(f"{application.id}-metrics", "cleanup.policy", "compact")

    with pytest.raises(TopicMismatchError, match=r"-metrics' has cleanup.policy=compact, delete is needed"):
        make(application).execute(context())


def test_second_time_verifies(application: Application) -> None:
    make(application).execute(context())

    assert make(application).execute(context())["created"] == []


def test_changelog_that_another_application_calls_its_own_is_refused(application: Application) -> None:
    # Not below the id of the application that the fixture made, which would be one more that may own it.
    first, second = f"other-{application.id}-x", f"other-{application.id}-x-y"
    source, topics = [f"{application.id}-source"], TopicAdmin(application.connection)
    create_topics(topics, first, source, ["y-state"])

    with pytest.raises(TopicMismatchError, match=r"whose store 'y-state' has a changelog of that name"):
        create_topics(topics, second, source, ["state"])

    assert create_topics(topics, second, source, ["totals"]).created
    assert create_topics(topics, first, source, ["y-state"]).created == ()


def test_missing_source_is_refused(application: Application) -> None:
    with pytest.raises(TopicMissingError, match="absent"):
        make(application, source_topics="absent").execute(context())


def test_source_with_added_partitions_is_refused_and_named_by_the_operator_too(application: Application) -> None:
    make(application).execute(context())
    admin = AdminClient({"bootstrap.servers": application.connection.bootstrap_servers})
    source = f"{application.id}-source"
    admin.create_partitions([NewPartitions(source, 4)])[source].result(30)
    wait_until(lambda: TopicAdmin(application.connection).partitions(source) == 4, 30.0, "the partitions")

    with pytest.raises(TopicMismatchError, match=f"Partitions were added to the source topic '{source}'"):
        make(application).execute(context())


def test_sources_of_different_partitions_are_refused(application: Application) -> None:
    sources = [f"{application.id}-source", f"{application.id}-status"]

    with pytest.raises(TopicMismatchError, match="different numbers of partitions"):
        make(application, source_topics=sources).execute(context())


def test_changelog_of_another_application_with_the_same_name_is_refused(application: Application) -> None:
    make(application, stores="y-state").execute(context())
    other = CreateChangelogTopicsOperator(
        task_id="topics",
        application_id=f"{application.id}-y",
        source_topics=f"{application.id}-source",
        stores="state",
    )

    with pytest.raises(TopicMismatchError, match=f"application '{application.id}' exists, too, whose store 'y-state'"):
        other.execute(context())

    topics = TopicAdmin(application.connection)
    assert topics.describe(f"{application.id}-y-assignment") is None, "nothing was made"
    assert make(application, stores="y-state").execute(context())["created"] == [], "the first one goes on"


def test_outputs_are_created_like_the_source_and_left_where_they_exist(application: Application) -> None:
    topics = TopicAdmin(application.connection)
    here, missing = f"{application.id}-here", f"{application.id}-out"
    topics.ensure([TopicSpec(name=here, partitions=5)])

    made = make(application, output_topics=f'["{missing}", "{here}"]').execute(context())

    assert missing in made["created"]
    assert here not in made["created"]
    assert (topics.partitions(missing), topics.partitions(here)) == (2, 5)
