from __future__ import annotations

from airflow_provider.kafka.topic_advice import topic_advice
from airflow_provider.kafka.topic_findings import TopicFinding
from airflow_provider.kafka.topic_spec import TopicDescription, changelog_spec, control_specs, metrics_spec

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
