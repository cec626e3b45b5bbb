from __future__ import annotations

import dataclasses

from airflow_provider.control.application.reset import StateFolder, plan_reset
from airflow_provider.control.records.job_description import JobDescription, JobTopic, TopicKind
from airflow_provider.control.records.status import DiskStatus, ProcessStatus
from tests.builders import APPLICATION, active, assigned, instance, view_of

EXISTING = {
    f"{APPLICATION}-{name}"
    for name in (
        *("state-changelog", "other-changelog", "0-commits", "x-commits"),
        *("metrics", "status", "history", "assignment"),
    )
} | {"orders", f"{APPLICATION}2-state-changelog"}


def test_own_topics_go_and_the_assignment_last() -> None:
    plan = plan_reset(view_of(None), EXISTING, ["state", "missing"])

    assert plan.topics == ("app-state-changelog", "app-0-commits", "app-metrics", "app-status", "app-assignment")


def test_history_goes_only_where_that_is_asked_for() -> None:
    plan = plan_reset(view_of(None), EXISTING, ["state"], delete_history=True)

    assert plan.topics[-3:] == ("app-status", "app-history", "app-assignment")


def test_stores_and_control_records_are_listed() -> None:
    where = dataclasses.replace(
        instance("a", active(0)),
        process=ProcessStatus(host="host-1"),
        disk=DiskStatus(folder="/mnt/a"),
    )

    plan = plan_reset(view_of(assigned("a -"), where), EXISTING, ["state"])

    assert plan.state == {"a": StateFolder("host-1", "/mnt/a")}
    assert plan.records["instances"] == 1
    assert "  - stores of a: /mnt/a on host-1" in str(plan).splitlines()


def test_topics_of_a_described_job_go_with_those_of_its_earlier_versions_and_no_others() -> None:
    view = view_of(None)
    own = [JobTopic(name=f"{APPLICATION}-words-repartition", kind=TopicKind.REPARTITION, stage=0)]
    strange = [JobTopic(name="orders", kind=TopicKind.CHANGELOG, stage=0)]
    view.job = JobDescription(
        application_id=APPLICATION,
        stages=(),
        topics=(*own, *strange),
        gone=(f"{APPLICATION}-other-changelog", f"{APPLICATION}2-state-changelog"),
    )

    plan = plan_reset(view, {*EXISTING, f"{APPLICATION}-words-repartition"}, ["state"])

    assert plan.topics == (
        "app-state-changelog",
        "app-words-repartition",
        "app-other-changelog",
        "app-0-commits",
        "app-metrics",
        "app-status",
        "app-assignment",
    )
