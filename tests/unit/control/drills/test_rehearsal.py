from __future__ import annotations

import dataclasses
from typing import cast

import pytest

from airflow_provider.control.drills.rehearsal import check_store, judge_when_measured
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError, InstanceError
from airflow_provider.kafka.topic_admin import TopicAdmin
from tests.unit.control.drills.test_judgement import FAULT, RECOVERY, after


class Topics:
    """Of a cluster with two applications."""

    NAMES = frozenset(
        {"orders-assignment", "orders-state-changelog", "orders-eu-assignment", "orders-eu-state-changelog", "in"}
    )

    def names(self) -> frozenset[str]:
        return self.NAMES

    def describe(self, name: str) -> str | None:
        return name if name in self.NAMES else None


def check(application_id: str, store: str, job: JobDescription | None = None) -> None:
    check_store(cast(TopicAdmin, Topics()), ControlView(application_id, job=job), store)


def test_store_of_the_application_is_taken() -> None:
    check("orders", "state")


def test_store_that_there_is_not_is_refused_by_name_with_those_that_there_are() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'orders' has no store 'stte' .*'orders-stte-changelog'.*, but state"
    ):
        check("orders", "stte")
    with pytest.raises(ConfigurationError, match=r"'fresh' has no store 'state' .* but none:"):
        check("fresh", "state")


def test_job_that_says_its_stores_needs_no_name() -> None:
    check("shop", "state", JobDescription(application_id="shop", stages=(), topics=()))


class Reader:
    """To which something new comes with each poll."""

    def __init__(self, *views: ControlView) -> None:
        self.view, *self._left = views

    def poll(self, _: float) -> None:
        self.view = self._left.pop(0)


def test_owner_that_commits_a_moment_later_is_waited_for() -> None:
    uncommitted = after(dataclasses.replace(RECOVERY, first_commit_at_ms=None))

    judged = judge_when_measured(cast(ControlReader, Reader(uncommitted, uncommitted, after())), FAULT, None)

    assert judged.failover is not None
    assert judged.failover.rto_ms == 1_500
    with pytest.raises(InstanceError, match="Not measured"):
        judge_when_measured(cast(ControlReader, Reader(uncommitted)), FAULT, None, timeout_s=0.0)
