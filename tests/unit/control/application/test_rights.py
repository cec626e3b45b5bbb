from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.rights import Resource, Role, acls_of
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.kafka.names import publisher_transactional_id, transactional_id
from airflow_provider.streaming import StatefulJob, stream, window
from airflow_provider.streaming import functions as F

ORDERS = JobDescription.of_topics("orders", sources=("events",), outputs=("totals",), stores=("one", "two"))


def staged() -> JobDescription:
    """Two stages: what comes is put under another key, and counted by the hour."""
    visits = stream("visits", schema="page STRING, at BIGINT", event_time="at", watermark="1 hour")
    hours = visits.group_by("page", window("at", "1 hour")).aggregate(F.count().alias("n"), name="hours")
    return StatefulJob("web", hours.sink("hourly")).on_error("dead_letter", topic="web-errors").description()


JOBS = [pytest.param(ORDERS, id="named"), pytest.param(staged(), id="described")]


def operations(role: Role, name: str, job: JobDescription = ORDERS) -> set[str]:
    return {operation for acl in acls_of(role, job) if acl.name == name for operation in acl.operations}


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("role", Role)
def test_nobody_is_given_all_rights_or_the_topics_of_an_application_whose_id_begins_alike(
    role: Role, job: JobDescription
) -> None:
    acls = acls_of(role, job)

    assert "All" not in {operation for acl in acls for operation in acl.operations}
    assert all(acl.resource is Resource.TRANSACTIONAL_ID for acl in acls if acl.prefixed)
    assert len({(acl.resource, acl.name) for acl in acls}) == len(acls)


@pytest.mark.parametrize("job", JOBS)
def test_viewer_writes_and_creates_nothing(job: JobDescription) -> None:
    acls = acls_of(Role.VIEWER, job)

    assert {operation for acl in acls for operation in acl.operations} == {"Describe", "Read"}
    assert not {topic.name for topic in job.topics} & {acl.name for acl in acls}


def test_values_of_records_are_no_viewers_to_look_up() -> None:
    assert operations(Role.VIEWER, "orders-lookups") == set()
    assert operations(Role.INSTANCE, "orders-lookups") == {"Describe", "Read", "Write"}
    assert operations(Role.AIRFLOW, "orders-lookups") >= {"Read", "Write", "Create"}


def test_each_store_has_its_changelog() -> None:
    for changelog in ("orders-one-changelog", "orders-two-changelog"):
        assert "Write" in operations(Role.INSTANCE, changelog)
        assert "Write" not in operations(Role.AIRFLOW, changelog)


@pytest.mark.parametrize(("job", "stages"), [pytest.param(ORDERS, 1, id="one"), pytest.param(staged(), 2, id="two")])
def test_instance_writes_for_its_tasks_and_publishes_no_assignment(job: JobDescription, stages: int) -> None:
    own = [acl for acl in acls_of(Role.INSTANCE, job) if acl.resource is Resource.TRANSACTIONAL_ID]

    assert all(acl.prefixed for acl in own)
    for stage in range(stages):
        held = transactional_id(job.application_id, TaskId(stage, 12))
        assert [held.startswith(acl.name) for acl in own].count(True) == 1
    assert not any(transactional_id(job.application_id, TaskId(stages, 0)).startswith(acl.name) for acl in own)
    assert not any(publisher_transactional_id(job.application_id).startswith(acl.name) for acl in own)


def test_instance_deletes_records_between_stages_and_of_windows_and_nothing_else() -> None:
    deletes = {acl.name for acl in acls_of(Role.INSTANCE, staged()) if "Delete" in acl.operations}

    assert deletes == {"web-hours-repartition", "web-hours-changelog"}
    assert not any("Delete" in acl.operations for acl in acls_of(Role.INSTANCE, ORDERS))
    windowed = JobDescription.of_topics("orders", stores=("one", "two"), windowed_stores=("two",))
    assert "Delete" in operations(Role.INSTANCE, "orders-two-changelog", windowed)
    assert "Delete" not in operations(Role.INSTANCE, "orders-one-changelog", windowed)


def test_every_topic_of_the_job_is_written_and_made_by_who_has_to() -> None:
    job = staged()

    assert {"Read", "Write"} <= operations(Role.INSTANCE, "web-0-commits", job)
    assert {"Read", "Write"} <= operations(Role.INSTANCE, "web-hours-repartition", job)
    assert operations(Role.INSTANCE, "web-errors", job) == {"Describe", "DescribeConfigs", "Write"}
    for topic in (*job.own, "hourly", "web-errors"):
        assert "Create" in operations(Role.AIRFLOW, topic, job)
        assert "Write" not in operations(Role.AIRFLOW, topic, job)
    assert {"visits", "hourly", "web-errors"}.isdisjoint(acl.name for acl in acls_of(Role.MAINTENANCE, job))
    assert set(job.own) < {acl.name for acl in acls_of(Role.MAINTENANCE, job)}


def test_reset_may_delete_what_an_earlier_version_of_the_job_left() -> None:
    left = dataclasses.replace(staged(), gone=("web-days-changelog",))

    assert "Delete" in operations(Role.MAINTENANCE, "web-days-changelog", left)
    assert not operations(Role.INSTANCE, "web-days-changelog", left)


def test_topic_that_is_read_and_written_has_both_rights_once() -> None:
    loop = JobDescription.of_topics("orders", sources=("events",), outputs=("events",))

    assert operations(Role.INSTANCE, "events", loop) == {"Describe", "DescribeConfigs", "Read", "Write"}
