from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.topics import TopicDescription, TopicSpec, changelog_spec, control_specs, verdict

SPEC = changelog_spec("orders", "state", partitions=6, replication_factor=3)
FOUND = TopicDescription(SPEC.name, 6, 3, {"cleanup.policy": "compact", "delete.retention.ms": "1"})


def with_config(**config: str) -> TopicDescription:
    return dataclasses.replace(FOUND, config={name.replace("_", "."): value for name, value in config.items()})


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        pytest.param(SPEC, FOUND, id="as-specified-but-for-taste"),
        pytest.param(SPEC, dataclasses.replace(FOUND, replication_factor=5), id="more-replicas"),
        pytest.param(dataclasses.replace(SPEC, partitions=None), dataclasses.replace(FOUND, partitions=1), id="any"),
        pytest.param(
            dataclasses.replace(SPEC, replication_factor=None),
            dataclasses.replace(FOUND, replication_factor=1),
            id="any-replication",
        ),
        pytest.param(TopicSpec(SPEC.name, None), with_config(cleanup_policy="delete"), id="plain-topic"),
    ],
)
def test_topic_can_be_used(spec: TopicSpec, found: TopicDescription) -> None:
    assert verdict(spec, found) is None


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(dataclasses.replace(FOUND, partitions=5), ["5 partitions", "6 are needed"], id="fewer-partitions"),
        pytest.param(
            dataclasses.replace(FOUND, partitions=12), ["12 partitions", "new application id"], id="more-partitions"
        ),
        pytest.param(
            dataclasses.replace(FOUND, replication_factor=1), ["1 replicas", "3 are needed"], id="fewer-replicas"
        ),
        pytest.param(
            with_config(cleanup_policy="delete"),
            ["cleanup.policy=delete", "compact is needed", "--add-config cleanup.policy=compact"],
            id="deleted",
        ),
        pytest.param(
            with_config(cleanup_policy="compact,delete"), ["cleanup.policy=compact,delete"], id="compacted-and-deleted"
        ),
        pytest.param(with_config(), ["cleanup.policy=None"], id="unknown-policy"),
    ],
)
def test_topic_that_cannot_be_used_says_what_was_found_and_needed(found: TopicDescription, told: list[str]) -> None:
    why = verdict(SPEC, found)

    assert why is not None
    assert "'orders-state-changelog'" in why
    for words in told:
        assert words in why


def test_control_topics_have_one_partition_and_the_brokers_clock() -> None:
    assignment, status = control_specs("orders")

    assert (assignment.name, status.name) == ("orders-assignment", "orders-status")
    for spec in (assignment, status):
        assert spec.partitions == 1
        found = TopicDescription(spec.name, 1, 1, {**spec.config, "message.timestamp.type": "CreateTime"})
        assert "message.timestamp.type=CreateTime" in str(verdict(spec, found))


def test_changelog_is_compacted_and_keeps_deletions_a_day() -> None:
    assert SPEC.config["cleanup.policy"] == "compact"
    assert SPEC.config["delete.retention.ms"] == str(24 * 3_600_000)
    assert SPEC.required == {"cleanup.policy"}
