from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

import pytest

from airflow_provider.control.application import job_topics
from airflow_provider.control.application.described_topics import (
    create_described_topics,
    described_findings,
    topic_specs,
)
from airflow_provider.control.application.job_topics import create_job_topics
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError, TopicMismatchError, TopicMissingError
from airflow_provider.kafka.topic_spec import TopicDescription, TopicSpec
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F

COUNT = F.count().alias("n")
ORDERS = stream("orders", schema="customer STRING, country STRING", key="customer")
JOB: JobDescription = StatefulJob(
    "app",
    ORDERS.group_by("customer").aggregate(COUNT).sink("per-customer"),
    ORDERS.group_by("country", partitions=2).aggregate(COUNT).sink("per-country"),
).description()


class Topics:
    """Some topics of a cluster, by name how many partitions each has; keeps what is created."""

    def __init__(self, found: Mapping[str, int]) -> None:
        self.found = dict(found)
        self.created: dict[str, int] = {}

    def describe(self, name: str) -> TopicDescription | None:
        if name not in self.found:
            return None
        return TopicDescription(name=name, partitions=self.found[name], replication_factor=1, config={})

    def partitions(self, name: str) -> int:
        return self.found[name]

    def ensure(self, specs: Iterable[TopicSpec]) -> tuple[str, ...]:
        self.created = {spec.name: cast(int, spec.partitions) for spec in specs if spec.name not in self.found}
        return tuple(self.created)


def create(found: Mapping[str, int]) -> tuple[JobDescription, Topics]:
    topics = Topics(found)
    described, created = create_described_topics(cast(Any, topics), JOB)
    assert set(created) == set(topics.created)
    return described, topics


def test_every_topic_but_the_sources_is_created() -> None:
    described, topics = create({"orders": 4})

    assert topics.created == {
        "app-assignment": 1,
        "app-status": 1,
        "app-history": 1,
        "app-metrics": 1,
        "app-lookups": 1,
        "app-per-country-repartition": 2,
        "app-per-customer-changelog": 4,
        "app-per-country-changelog": 2,
        "app-1-commits": 4,
        "per-customer": 4,
        "per-country": 2,
    }
    assert described.num_partitions == {0: 4, 1: 4, 2: 2}


def test_sink_that_exists_may_be_as_it_is() -> None:
    _, topics = create({"orders": 4, "per-customer": 1})

    assert "per-customer" not in topics.created


def test_source_that_was_changed_is_refused() -> None:
    with pytest.raises(TopicMismatchError, match="Partitions were added to the source topic 'orders'"):
        create({"orders": 6, "app-per-customer-changelog": 4})


def test_topics_of_unknown_partitions_are_not_created() -> None:
    with pytest.raises(ConfigurationError, match="'orders' says it"):
        list(topic_specs(JOB))


def test_repartition_topic_is_not_compacted_and_keeps_its_records() -> None:
    (spec,) = [s for s in topic_specs(JOB.with_partitions({"orders": 4})) if s.name == "app-per-country-repartition"]

    assert (spec.config["cleanup.policy"], spec.config["retention.ms"]) == ("delete", "-1")


def findings(*missing: str, ran: bool, empty: Collection[str] = (), **partitions: int) -> list[tuple[str, bool]]:
    job = JOB.with_partitions({"orders": 4})
    specs = {spec.name: spec for spec in topic_specs(job)}
    found: dict[str, TopicDescription | None] = {
        name: TopicDescription(
            name=name, partitions=partitions.get(name, spec.partitions or 1), replication_factor=1, config=spec.config
        )
        for name, spec in specs.items()
    }
    orders = TopicDescription(name="orders", partitions=partitions.get("orders", 4), replication_factor=1, config={})
    found |= {"orders": orders, **dict.fromkeys(missing)}
    return [
        (finding.topic, finding.repair is not None) for finding in described_findings(job, found, ran=ran, empty=empty)
    ]


def test_topics_as_they_have_to_be_are_no_finding() -> None:
    assert findings(ran=True) == []


def test_missing_topics_of_a_new_application_can_be_created() -> None:
    missing = ("app-status", "app-1-commits", "app-per-country-repartition", "per-country")

    assert findings(*missing, ran=False) == [
        ("app-status", True),
        ("app-per-country-repartition", True),
        ("app-1-commits", True),
        ("per-country", True),
    ]


def test_what_a_missing_topic_held_is_not_hidden_by_an_empty_one() -> None:
    assert findings("app-status", "app-1-commits", "per-country", ran=True) == [
        ("app-status", True),
        ("app-1-commits", False),
        ("per-country", True),
    ]


def test_what_is_to_be_rebuilt_from_its_stores_is_created_empty_when_asked_for() -> None:
    lost = ("app-per-country-repartition", "app-per-country-changelog", "app-1-commits")

    assert findings(*lost, ran=True, empty=lost) == [
        ("app-per-country-repartition", False),
        ("app-per-country-changelog", True),
        ("app-1-commits", True),
    ]
    assert findings(*lost[1:], ran=True, empty=lost[2:]) == [(lost[1], False), (lost[2], True)]


def test_source_that_is_missing_or_was_changed_is_for_a_person() -> None:
    assert findings("orders", ran=False) == [("orders", False)]
    assert findings(ran=True, orders=6) == [("orders", False)]


@pytest.mark.parametrize("lost", ["app-1-commits", "app-per-country-changelog", "app-per-country-repartition"])
def test_deployment_does_not_create_what_the_application_ran_with(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, topics = create({"orders": 4})
    found = {"orders": 4, **topics.created}
    del found[lost]
    topics = Topics(found)
    view = ControlView("app", job=before, assignment=Assignment(application_id="app", generation=1, tasks={}))
    monkeypatch.setattr(job_topics, "read_view_if_there", lambda *_: view)

    with pytest.raises(TopicMissingError, match=f"{lost}' does not exist, and 'app' ran before: .*Do not create it"):
        create_job_topics(cast(Any, None), cast(Any, topics), JOB)

    assert topics.created == {}


def test_topic_between_two_stages_that_is_lost_says_by_which_command_the_job_goes_on() -> None:
    job, name = JOB.with_partitions({"orders": 4}), "app-per-country-repartition"
    described, topics = create({"orders": 4})
    found = Topics({"orders": 4, **topics.created})
    del found.found[name]
    there = {topic: found.describe(topic) for topic in ("orders", *topics.created)}

    with pytest.raises(TopicMissingError) as of_deployment:
        create_described_topics(cast(Any, found), JOB, before=described, ran=True)

    (of_status,) = (
        one for one in described_findings(job, there, ran=True) if one.problem.startswith(f"topic '{name}'")
    )
    (spec,) = (spec for spec in topic_specs(job) if spec.name == name)
    for said in (of_status.fix, str(of_deployment.value), str(spec.if_missing)):
        assert "topics repair JOB.py --apply" in said
        assert "another name=" in said
        assert "application id" in said
        assert "Changelog missing or mismatched" in said


def test_deployment_creates_what_a_stage_needs_that_was_added_to_an_application_that_ran() -> None:
    smaller = StatefulJob("app", ORDERS.group_by("customer").aggregate(COUNT).sink("per-customer")).description()
    topics = Topics({"orders": 4})
    before, _ = create_described_topics(cast(Any, topics), smaller)
    topics = Topics({"orders": 4, **topics.created})

    _, created = create_described_topics(cast(Any, topics), JOB, before=before, ran=True)

    assert created == ("app-per-country-repartition", "app-per-country-changelog", "app-1-commits", "per-country")
