from __future__ import annotations

from typing import cast

import pytest

from airflow_provider.control.drills.rehearsal import check_store
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.topic_admin import TopicAdmin


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
