from __future__ import annotations

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import (
    assignment_topic,
    changelog_topic,
    check_name,
    commits_topic,
    publisher_transactional_id,
    repartition_topic,
    status_topic,
    transactional_id,
)


def test_topics_and_ids_begin_with_the_application() -> None:
    assert changelog_topic("orders", "state") == "orders-state-changelog"
    assert commits_topic("orders", 1) == "orders-1-commits"
    assert repartition_topic("orders", "counts") == "orders-counts-repartition"
    assert assignment_topic("orders") == "orders-assignment"
    assert status_topic("orders") == "orders-status"
    assert transactional_id("orders", TaskId(0, 3)) == "orders-0_3"


def test_publisher_and_tasks_never_share_a_transactional_id() -> None:
    assert publisher_transactional_id("orders") not in {
        transactional_id("orders", TaskId(0, task)) for task in range(1000)
    }


@pytest.mark.parametrize("name", ["a", "9", "orders-per-customer", "a.b_c-D9", "x" * 100], ids=lambda name: name[:20])
def test_name_of_a_topic_and_folder_is_given_back(name: str) -> None:
    assert check_name("application id", name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "-a", "_a", ".a", "a/b", "a b", "a\n", "a\0", "ä", "a:b", "x" * 101],
    ids=lambda name: repr(name[:20]),
)
def test_other_names_are_refused_and_shown(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"store .* cannot name a topic and a folder") as caught:
        check_name("store", name)

    assert repr(name) in str(caught.value)
