from __future__ import annotations

import dataclasses

from airflow_provider.kafka.topic_findings import TopicFinding, WantedTopics, topic_advice, topic_findings
from airflow_provider.kafka.topic_spec import TopicDescription, changelog_spec, control_specs, metrics_spec

NEW = WantedTopics(application_id="orders", sources=("orders",), outputs=("totals",))
RUNNING = NEW.known(num_tasks=4, ran=True)


def topics(**partitions: int) -> dict[str, TopicDescription | None]:
    """Those of an application of four tasks, all as they have to be; 0 partitions for one that does not exist."""
    counts = {"orders": 4, "totals": 4, "orders-state-changelog": 4, "orders-assignment": 1, "orders-status": 1}
    counts |= {"orders-history": 1, "orders-metrics": 1, "orders-lookups": 1}
    counts |= {name.replace("_", "-"): number for name, number in partitions.items()}
    config = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
    other = {
        "orders-history": {"cleanup.policy": "compact,delete", "retention.ms": "-1"},
        "orders-metrics": {"cleanup.policy": "delete"},
        "orders-lookups": {"cleanup.policy": "delete", "retention.ms": "60000"},
    }
    return {
        name: TopicDescription(
            name=name,
            partitions=number,
            replication_factor=1,
            config=other.get(name, config),
        )
        if number
        else None
        for name, number in counts.items()
    }


def found(wanted: WantedTopics, **partitions: int) -> list[TopicFinding]:
    return list(topic_findings(wanted, topics(**partitions)))


def test_topics_that_are_as_needed_give_no_finding() -> None:
    assert set(RUNNING.names) == set(topics())
    assert found(RUNNING) == found(NEW) == []


def test_topics_of_a_new_application_are_created_with_the_partitions_of_its_source() -> None:
    control = ("orders_assignment", "orders_status", "orders_history", "orders_metrics", "orders_lookups")
    findings = found(NEW, totals=0, orders_state_changelog=0, **dict.fromkeys(control, 0))

    assert [finding.repair for finding in findings] == [
        "create orders-assignment with 1 partition(s)",
        "create orders-status with 1 partition(s)",
        "create orders-history with 1 partition(s)",
        "create orders-metrics with 1 partition(s)",
        "create orders-lookups with 1 partition(s)",
        "create orders-state-changelog with 4 partition(s)",
        "create totals with 4 partition(s)",
    ]
    assert "stateful-streams topics repair orders --source orders --output totals --apply" in findings[0].fix
    assert ["assign again" in finding.fix for finding in findings[:4]] == [True, True, False, False]


def test_changelog_of_an_application_that_ran_is_never_created() -> None:
    (finding,) = found(RUNNING, orders_state_changelog=0)

    assert finding.repair is None
    assert "all that is left of the state" in finding.problem
    assert "airflow_provider.streaming.changelog_rebuild orders" in finding.fix


def test_changelog_of_a_store_that_nothing_was_committed_to_is_created_though_the_application_ran() -> None:
    wanted = dataclasses.replace(RUNNING, stores=("new",), state_in="orders-state-changelog")

    (finding,) = found(wanted, orders_new_changelog=0)

    assert finding.repair == "create orders-new-changelog with 4 partition(s)"
    assert "the newest state of 'orders' is in 'orders-state-changelog'" in finding.problem
    assert "Correct the store's name" in finding.fix


def test_topic_whose_partitions_are_not_known_is_left_to_a_person() -> None:
    wanted = dataclasses.replace(NEW, sources=())

    (finding,) = topic_findings(wanted, topics(orders_state_changelog=0))

    assert finding.repair is None
    assert "--source TOPIC" in finding.fix


def test_setting_that_was_changed_is_set_back() -> None:
    changed = topics()
    changelog = changed["orders-state-changelog"]
    assert changelog is not None
    changed[changelog.name] = dataclasses.replace(changelog, config={"cleanup.policy": "delete"})

    (finding,) = topic_findings(RUNNING, changed)

    assert finding.repair == "set cleanup.policy=compact on orders-state-changelog"
    assert "kafka-configs --alter" in finding.fix


def test_source_that_is_missing_or_has_other_partitions_than_tasks_is_left_to_a_person() -> None:
    (missing,), (grown,) = found(RUNNING, orders=0), found(RUNNING, orders=6)

    assert (missing.repair, grown.repair) == (None, None)
    assert "does not exist" in missing.problem
    assert "6 partitions, 'orders' has 4 tasks" in grown.problem


def test_changelog_is_compared_with_the_tasks_where_no_source_is_named() -> None:
    (finding,) = topic_findings(dataclasses.replace(RUNNING, sources=()), topics(orders_state_changelog=3))

    assert "3 partitions, 4 are needed" in finding.problem
    assert finding.repair is None


CHANGELOG = changelog_spec("orders", "state", 4)
STATUS = control_specs("orders")[1]


def advice(
    brokers: int = 3, replicas: int = 3, max_absence_s: float | None = None, **config: str
) -> list[TopicFinding]:
    given = {**CHANGELOG.config, "min.insync.replicas": "2"} | {
        name.replace("_", "."): value for name, value in config.items()
    }
    found = TopicDescription(name=CHANGELOG.name, partitions=4, replication_factor=replicas, config=given)
    return list(topic_advice([(CHANGELOG, found)], brokers, max_absence_s))


def test_topic_as_this_package_creates_it_gives_no_advice() -> None:
    assert advice() == []
    assert advice(brokers=1, replicas=1, min_insync_replicas="1") == []


def test_single_replica_in_a_cluster_of_several_brokers_is_fragile() -> None:
    (finding,) = advice(replicas=1, min_insync_replicas="1")

    assert "has 1 replica(s) and the cluster 3 brokers" in finding.problem
    assert finding.setting is None
    assert "kafka-reassign-partitions" in finding.fix


def test_commit_that_one_of_three_brokers_may_hold_alone_is_fragile() -> None:
    (finding,) = advice(min_insync_replicas="1")

    assert finding.setting == ("min.insync.replicas", "2")


def test_replicas_of_which_none_may_be_away_stop_every_commit() -> None:
    (finding,) = advice(min_insync_replicas="3")

    assert "while one broker is away nothing can be committed" in finding.problem
    assert finding.setting == ("min.insync.replicas", "2")


def test_each_advice_names_the_command_that_follows_it() -> None:
    segments, dirty = advice(segment_bytes=str(1 << 30), min_cleanable_dirty_ratio="0.5")

    assert "segments of 1,024 MiB" in segments.problem
    assert "is compacted when 50% of it can go, 30% are meant" in dirty.problem
    assert dirty.fix == (
        "Set it with kafka-configs --alter --entity-type topics --entity-name orders-state-changelog --add-config "
        "min.cleanable.dirty.ratio=0.3."
    )


def test_control_topic_whose_segments_live_for_days_is_read_in_full_by_every_start() -> None:
    found = TopicDescription(
        name=STATUS.name, partitions=1, replication_factor=1, config={**STATUS.config, "segment.ms": "604800000"}
    )

    (finding,) = topic_advice([(STATUS, found)], 1)

    assert "begins a segment every 168.0 h" in finding.problem
    assert finding.setting == ("segment.ms", "600000")


def test_topic_that_is_not_compacted_gets_no_advice_about_compaction() -> None:
    spec = metrics_spec("orders")
    config = {**spec.config, "segment.bytes": str(1 << 30), "segment.ms": "604800000"}
    found = TopicDescription(name=spec.name, partitions=1, replication_factor=1, config=config)

    assert topic_advice([(spec, found)], 1) == ()


def test_deletions_are_kept_for_as_long_as_an_instance_may_be_away() -> None:
    assert advice(max_absence_s=86_400) == []

    (finding,) = advice(max_absence_s=3 * 86_400)

    assert finding.setting == ("delete.retention.ms", "259200000")
    assert "keeps deletions for 24.0 h" in finding.problem
