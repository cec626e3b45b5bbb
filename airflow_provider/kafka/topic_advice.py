"""What makes an application's topics slow or fragile although they are correct: a pure function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_provider.kafka.topic_findings import TopicFinding
from airflow_provider.kafka.topic_spec import TopicDescription, TopicSpec, config_command

_IN_SYNC = "min.insync.replicas"
_SEGMENT = "segment.bytes"
_SEGMENT_MS = "segment.ms"
_DIRTY = "min.cleanable.dirty.ratio"
_RETENTION = "delete.retention.ms"
_MIB = 1 << 20


def topic_advice(
    topics: Iterable[tuple[TopicSpec, TopicDescription]], brokers: int, max_absence_s: float | None = None
) -> tuple[TopicFinding, ...]:
    """What should be set otherwise, each with the command that does it.

    Args:
        topics: each as this package creates it, and as it is.
        max_absence_s: for how long an instance may be away and still go on from its stores, in seconds; None sets no
            limit.
    """
    return tuple(
        finding
        for spec, found in topics
        if spec.config
        for finding in (*_of_replicas(found, brokers), *_of_compaction(spec, found), *_of_absence(found, max_absence_s))
    )


def _of_replicas(found: TopicDescription, brokers: int) -> Iterator[TopicFinding]:
    replicas, in_sync = found.replication_factor, int(found.config.get(_IN_SYNC, 1))
    if replicas < 2 <= brokers:
        yield TopicFinding(
            f"topic {found.name!r} has {replicas} replica(s) and the cluster {brokers} brokers: the loss of one broker "
            "stops the application, and that of its disk loses what the topic holds.",
            f"Give it {min(3, brokers)} replicas with kafka-reassign-partitions.",
            topic=found.name,
        )
    elif replicas > 2 and in_sync < 2:
        yield _set(
            found.name,
            f"topic {found.name!r} has {_IN_SYNC}={in_sync} with {replicas} replicas: a commit that one broker alone "
            "holds is lost with it.",
            (_IN_SYNC, "2"),
        )
    elif replicas > 1 and in_sync >= replicas:
        yield _set(
            found.name,
            f"topic {found.name!r} has {_IN_SYNC}={in_sync} with {replicas} replicas: while one broker is away nothing "
            "can be committed.",
            (_IN_SYNC, str(replicas - 1)),
        )


def _of_compaction(spec: TopicSpec, found: TopicDescription) -> Iterator[TopicFinding]:
    """What is not compacted is read again by every restore, and by every start of Airflow's side."""
    if "compact" not in spec.config.get("cleanup.policy", ""):
        return
    segment, wanted = int(found.config.get(_SEGMENT, 0)), int(spec.config.get(_SEGMENT, 0))
    if wanted and segment > 2 * wanted:
        yield _set(
            found.name,
            f"topic {found.name!r} has segments of {segment / _MIB:,.0f} MiB: the newest of each partition is never "
            "compacted, so a restore reads up to as much in vain.",
            (_SEGMENT, str(wanted)),
        )
    roll_ms, often_ms = int(found.config.get(_SEGMENT_MS, 0)), int(spec.config.get(_SEGMENT_MS, 0))
    if often_ms and roll_ms > 2 * often_ms:
        yield _set(
            found.name,
            f"topic {found.name!r} begins a segment every {roll_ms / 3_600_000:,.1f} h: its newest is not compacted "
            "before, and all of it is read whenever an instance or an Airflow task starts.",
            (_SEGMENT_MS, str(often_ms)),
        )
    dirty, most = float(found.config.get(_DIRTY, 0)), float(spec.config.get(_DIRTY, 1))
    if dirty > most:
        yield _set(
            found.name,
            f"topic {found.name!r} is compacted when {dirty:.0%} of it can go, {most:.0%} are meant: until then a "
            "restore reads that too.",
            (_DIRTY, f"{most:g}"),
        )


def _of_absence(found: TopicDescription, max_absence_s: float | None) -> Iterator[TopicFinding]:
    changelog = found.name.endswith("-changelog")
    if changelog and max_absence_s is not None and found.delete_retention_ms < 1000 * max_absence_s:
        yield _set(
            found.name,
            f"topic {found.name!r} keeps deletions for {found.delete_retention_ms / 3_600_000:,.1f} h, so an instance "
            f"that was away for longer restores all of it: {max_absence_s / 3600:,.1f} h are to be allowed.",
            (_RETENTION, str(int(1000 * max_absence_s))),
        )


def _set(topic: str, problem: str, setting: tuple[str, str]) -> TopicFinding:
    return TopicFinding(problem, f"Set it with {config_command(topic, *setting)}.", topic=topic, setting=setting)
