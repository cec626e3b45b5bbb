from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.kafka.topic_findings import mismatch
from airflow_provider.kafka.topic_spec import (
    TopicDescription,
    TopicSpec,
    changelog_spec,
    commits_spec,
    control_specs,
    history_spec,
    lookups_spec,
    metrics_spec,
    repartition_spec,
)

SPEC = changelog_spec("orders", "state", partitions=6, replication_factor=3)
FOUND = TopicDescription(
    name=SPEC.name, partitions=6, replication_factor=3, config={"cleanup.policy": "compact", "delete.retention.ms": "1"}
)


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
        pytest.param(
            dataclasses.replace(changelog_spec("orders", "state", 6), replication_factor=None),
            with_config(cleanup_policy="compact", min_insync_replicas="1"),
            id="as-many-in-sync-as-the-cluster-says",
        ),
        pytest.param(
            TopicSpec(name=SPEC.name, partitions=None), with_config(cleanup_policy="delete"), id="plain-topic"
        ),
    ],
)
def test_topic_can_be_used(spec: TopicSpec, found: TopicDescription) -> None:
    assert mismatch(spec, found) is None


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(dataclasses.replace(FOUND, partitions=5), ["5 partitions", "6 are needed"], id="fewer-partitions"),
        pytest.param(
            dataclasses.replace(FOUND, partitions=12), ["12 partitions", "new application id"], id="more-partitions"
        ),
        pytest.param(
            dataclasses.replace(FOUND, replication_factor=1), ["1 replicas", "3 are needed"], id="fewer-replicas"
        ),
        pytest.param(
            with_config(cleanup_policy="compact", min_insync_replicas="1"),
            ["min.insync.replicas=1, 2 is needed with 3 replicas", "--add-config min.insync.replicas=2"],
            id="commits-that-one-broker-holds",
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
def test_topic_that_cannot_be_used_says_what_was_found_and_needed(found: TopicDescription, expected: list[str]) -> None:
    why = mismatch(SPEC, found)

    assert why is not None
    assert "'orders-state-changelog'" in why
    for words in expected:
        assert words in why


@pytest.mark.parametrize(
    ("replicas", "in_sync"), [(None, None), (1, "1"), (2, "1"), (3, "2"), (5, "2")], ids=lambda number: str(number)
)
def test_commit_is_held_by_two_replicas_where_there_are_three(replicas: int | None, in_sync: str | None) -> None:
    specs = [changelog_spec("orders", "state", 6, replicas), commits_spec("orders", 1, 6, replicas)]

    for spec in (*specs, *control_specs("orders", replicas)):
        assert spec.config.get("min.insync.replicas") == in_sync


def test_control_topics_have_one_partition_and_the_brokers_clock() -> None:
    assignment, status = control_specs("orders")

    assert (assignment.name, status.name) == ("orders-assignment", "orders-status")
    for spec in (assignment, status):
        assert spec.partitions == 1
        found = TopicDescription(
            name=spec.name,
            partitions=1,
            replication_factor=1,
            config={**spec.config, "message.timestamp.type": "CreateTime"},
        )
        assert "message.timestamp.type=CreateTime" in str(mismatch(spec, found))


def test_retention_of_deletions_is_kafkas_default_where_the_topic_names_none() -> None:
    assert FOUND.delete_retention_ms == 1
    assert dataclasses.replace(FOUND, config={}).delete_retention_ms == 24 * 3_600_000


def test_changelog_is_compacted_and_keeps_deletions_a_day() -> None:
    assert SPEC.config["cleanup.policy"] == "compact"
    assert SPEC.config["delete.retention.ms"] == str(24 * 3_600_000)
    assert SPEC.required == {"cleanup.policy"}


def test_commit_topic_of_a_stage_is_compacted_with_a_partition_for_each_task() -> None:
    spec = commits_spec("orders", 1, partitions=6, replication_factor=3)

    assert (spec.name, spec.partitions, spec.replication_factor) == ("orders-1-commits", 6, 3)
    assert spec.config["cleanup.policy"] == "compact"
    assert spec.required == {"cleanup.policy"}


def test_history_is_kept_whatever_its_age() -> None:
    spec = history_spec("orders", replication_factor=3)

    assert (spec.name, spec.partitions) == ("orders-history", 1)
    assert spec.config["cleanup.policy"] == "compact,delete"
    for config in ({"retention.ms": "604800000"}, {"cleanup.policy": "delete"}):
        found = TopicDescription(name=spec.name, partitions=1, replication_factor=3, config={**spec.config, **config})
        assert next(iter(config)) in str(mismatch(spec, found))


def test_metrics_are_kept_for_a_week_and_not_compacted() -> None:
    spec = metrics_spec("orders", replication_factor=3)

    assert (spec.name, spec.partitions, spec.config["retention.ms"]) == ("orders-metrics", 1, "604800000")
    for policy in ("compact", "compact,delete"):
        config = {**spec.config, "cleanup.policy": policy}
        found = TopicDescription(name=spec.name, partitions=1, replication_factor=3, config=config)
        assert f"has cleanup.policy={policy}, delete is needed" in str(mismatch(spec, found))


@pytest.mark.parametrize(
    ("setting", "value"), [("retention.ms", "604800000"), ("retention.bytes", "1000"), ("cleanup.policy", "compact")]
)
def test_topic_between_stages_that_would_lose_what_was_not_processed_is_refused(setting: str, value: str) -> None:
    spec = repartition_spec("orders-counts-repartition", 4)
    found = TopicDescription(name=spec.name, partitions=4, replication_factor=1, config={**spec.config})
    assert mismatch(spec, found) is None

    why = mismatch(spec, dataclasses.replace(found, config={**spec.config, setting: value}))

    assert why is not None
    assert f"has {setting}={value}" in why


WINDOWS = changelog_spec("orders", "state", partitions=6, windowed=True)


@pytest.mark.parametrize(
    ("policy", "retention", "fits"),
    [
        ("compact,delete", "-1", True),
        ("delete,compact", "-1", True),
        ("compact,delete", "604800000", False),
        ("compact", "-1", False),
        ("delete", "-1", False),
    ],
)
def test_brokers_delete_of_windows_nothing_by_their_own_clock(policy: str, retention: str, fits: bool) -> None:
    found = with_config(cleanup_policy=policy, retention_ms=retention, retention_bytes="-1")
    assert (mismatch(WINDOWS, found) is None) is fits


def test_changelog_without_windows_must_not_be_deleted() -> None:
    message = mismatch(SPEC, with_config(cleanup_policy="compact,delete"))
    assert message is not None
    assert "compact is needed" in message


def test_setting_with_a_comma_is_written_as_the_tool_wants_it() -> None:
    message = mismatch(WINDOWS, with_config(cleanup_policy="compact", retention_ms="-1", retention_bytes="-1"))
    assert message is not None
    assert "--add-config cleanup.policy=[compact,delete]" in message


def test_what_was_looked_up_is_kept_for_a_minute_and_not_longer() -> None:
    spec = lookups_spec("orders", replication_factor=3)

    assert (spec.name, spec.partitions, spec.config["retention.ms"]) == ("orders-lookups", 1, "60000")
    for config in ({"retention.ms": "604800000"}, {"cleanup.policy": "compact"}):
        found = TopicDescription(name=spec.name, partitions=1, replication_factor=3, config={**spec.config, **config})
        assert next(iter(config)) in str(mismatch(spec, found))
