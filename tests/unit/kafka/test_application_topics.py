from __future__ import annotations

import pytest

from airflow_provider.errors import TopicMismatchError
from airflow_provider.kafka.application_topics import check_partitions, missing_source, other_owners, source_spec
from airflow_provider.kafka.topic_findings import mismatch
from airflow_provider.kafka.topic_spec import TopicDescription


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


def test_source_with_as_many_partitions_as_its_changelogs_is_read() -> None:
    check_partitions("orders", 4, {"app-state-changelog": 4, "app-other-changelog": 4})
    check_partitions("orders", 4, {})


def test_partitions_that_were_added_are_laid_on_the_source_with_what_follows_and_what_to_do() -> None:
    with pytest.raises(TopicMismatchError) as refused:
        check_partitions("orders", 6, {"app-state-changelog": 4})

    said = str(refused.value)
    assert said.startswith("Partitions were added to the source topic 'orders': it has 6, and had 4")
    for words in ("not read", "another partition", "new topic", "new application id", "leave it alone"):
        assert words in said
    assert "recreate" not in said


def test_source_with_fewer_partitions_than_its_changelog_costs_no_state() -> None:
    with pytest.raises(TopicMismatchError) as refused:
        check_partitions("orders", 2, {"app-state-changelog": 4})

    for words in ("'orders' has 2 partitions", "'app-state-changelog' 4", "do not delete it"):
        assert words in str(refused.value)


def test_source_that_grows_under_an_instance_is_named_as_the_source() -> None:
    found = TopicDescription(name="orders", partitions=4, replication_factor=1, config={})

    why = str(mismatch(source_spec("orders", 2), found))

    assert "'orders' has 4 partitions, 2 are needed" in why
    assert "It is the job's source, and its partitions were changed." in why
    assert "recreate" not in why


def test_missing_source_of_an_application_that_ran_is_created_with_as_many_partitions_under_another_store() -> None:
    said = missing_source(4)

    for words in ("with 4 partitions", "committed positions mean nothing", "another store name", "TopicMismatchError"):
        assert words in said
    assert missing_source(None) == "It is the job's source: create it, or correct its name."
