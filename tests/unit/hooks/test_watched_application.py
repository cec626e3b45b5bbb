from __future__ import annotations

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.hooks.watched_application import WatchedApplication, parse_applications


def test_nothing_is_watched_by_default() -> None:
    assert parse_applications("") == ()


def test_applications_have_a_connection_and_options() -> None:
    assert parse_applications(" flights , orders@eu?instance_timeout_s=3&num_standby_replicas=2") == (
        WatchedApplication(application_id="flights", kafka_conn_id="kafka_streams_default"),
        WatchedApplication(application_id="orders", kafka_conn_id="eu", instance_timeout_s=3.0, num_standby_replicas=2),
    )


@pytest.mark.parametrize(
    "text",
    ["a b", "@eu", "a?speed=1", "a?instance_timeout_s=soon", "a?instance_timeout_s=0", "a,a@eu"],
    ids=["name", "no name", "option", "no number", "zero", "twice"],
)
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_applications(text)
