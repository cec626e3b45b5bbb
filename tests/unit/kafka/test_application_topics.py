from __future__ import annotations

import pytest

from airflow_provider.kafka.application_topics import other_owners


@pytest.mark.parametrize(
    ("application_id", "store", "others"),
    [
        pytest.param("orders", "state", [], id="no-part-holds-the-hyphen"),
        pytest.param("x", "y-state", ["x-y"], id="in-the-store"),
        pytest.param("x-y", "state", ["x"], id="in-the-application"),
        pytest.param("a-b", "c-d", ["a", "a-b-c"], id="in-both"),
    ],
)
def test_other_applications_may_come_to_the_same_name(application_id: str, store: str, others: list[str]) -> None:
    assert other_owners(application_id, store) == others
