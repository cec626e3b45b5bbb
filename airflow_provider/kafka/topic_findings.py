"""What is wrong with an application's topics, and what makes each right: a pure function of what the brokers say."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass

from airflow_provider.common.table import mib
from airflow_provider.kafka.topic_spec import (
    DELETE_RETENTION,
    MIN_IN_SYNC,
    TopicDescription,
    TopicSpec,
    changelog_spec,
    control_plane_specs,
    control_specs,
)


@dataclass(frozen=True, kw_only=True)
class WantedTopics:
    """The topics that an application needs.

    Args:
        sources: what its job reads, as far as it is known.
        stores: the names of its job's stores.
        outputs: sinks and dead-letter topics, as far as they are known.
        replication_factor: at least so many replicas; None accepts any.
        num_tasks: how many tasks were assigned; None where none were.
        ran: whether an instance of it was ever there: then a changelog that is missing held state, but for `state_in`.
        windowed_stores: those among the stores whose keys begin with a time (`topic_spec.changelog_spec`).
        empty: the changelogs that may be created although they held state: a person rebuilds them from the stores.
        state_in: the changelog of another store that has the newest state; None where none is known to have it.
    """

    application_id: str
    sources: tuple[str, ...] = ()
    stores: tuple[str, ...] = ("state",)
    outputs: tuple[str, ...] = ()
    replication_factor: int | None = None
    num_tasks: int | None = None
    ran: bool = False
    state_in: str | None = None
    windowed_stores: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def control(self) -> tuple[TopicSpec, ...]:
        """The control topics (`control_plane_specs`)."""
        return control_plane_specs(self.application_id, self.replication_factor)

    def changelog(self, store: str, partitions: int | None) -> TopicSpec:
        """The changelog of one of its stores; with None for `partitions`, of any number of them."""
        windowed = store in self.windowed_stores
        spec = changelog_spec(self.application_id, store, partitions or 1, self.replication_factor, windowed)
        return spec if partitions else dataclasses.replace(spec, partitions=None)

    def known(self, num_tasks: int | None, ran: bool) -> WantedTopics:
        """The same, by what the control topics hold."""
        return dataclasses.replace(self, num_tasks=num_tasks, ran=ran or num_tasks is not None)

    def own(self) -> tuple[TopicSpec, ...]:
        """Those that this package creates, with any number of partitions in the changelogs."""
        return (*self.control, *(self.changelog(store, None) for store in self.stores))

    @property
    def names(self) -> tuple[str, ...]:
        """Of all of them."""
        changelogs = (self.changelog(store, None) for store in self.stores)
        return (*self.sources, *(spec.name for spec in (*self.control, *changelogs)), *self.outputs)


@dataclass(frozen=True)
class TopicFinding:
    """One thing that is not as it should be.

    Args:
        create: the topic to be created; None where that is not the answer.
        setting: the name and the value of the setting to be given; None where that is not the answer.
        keep: what has to be written into it, in a few words, by who knows it; None where that is not the answer.
    """

    problem: str
    fix: str
    _: KW_ONLY
    topic: str
    create: TopicSpec | None = None
    setting: tuple[str, str] | None = None
    keep: str | None = None

    @property
    def repair(self) -> str | None:
        """What is done about it without losing anything, in a few words; None where only a person can decide."""
        if self.create is not None:
            return f"create {self.topic} with {self.create.partitions} partition(s)"
        if self.setting is not None:
            return f"set {self.setting[0]}={self.setting[1]} on {self.topic}"
        return self.keep


def mismatch(spec: TopicSpec, found: TopicDescription) -> str | None:
    """Why a topic cannot be used, or None when it can: what was found, what is needed, what to do."""
    for difference in differences(spec, found):
        return f"{difference.problem} {difference.fix}"
    return None


def differences(spec: TopicSpec, found: TopicDescription) -> Iterator[TopicFinding]:
    """All that keeps a topic from being used; nothing that is a matter of taste."""
    if spec.partitions is not None and found.partitions != spec.partitions:
        yield TopicFinding(
            f"topic {spec.name!r} has {found.partitions} partitions, {spec.partitions} are needed: a key would be "
            "looked for in another partition than it was stored in.",
            spec.if_resized
            or "Find out which topic was changed; see 'Changelog missing or mismatched' in the runbook. Where nothing "
            "can be changed back, use a new application id.",
            topic=spec.name,
        )
    if spec.replication_factor is not None and found.replication_factor < spec.replication_factor:
        yield TopicFinding(
            f"topic {spec.name!r} has {found.replication_factor} replicas, {spec.replication_factor} are needed:",
            "raise its replication with kafka-reassign-partitions, or ask for fewer replicas.",
            topic=spec.name,
        )
    in_sync, needed = found.config.get(MIN_IN_SYNC), spec.config.get(MIN_IN_SYNC, "1")
    if in_sync is not None and int(in_sync) < int(needed):
        yield TopicFinding(
            f"topic {spec.name!r} has {MIN_IN_SYNC}={in_sync}, {needed} is needed with {spec.replication_factor} "
            "replicas: a commit that one broker alone holds is lost with it.",
            f"Set it with {config_command(spec.name, MIN_IN_SYNC, needed)}.",
            setting=(MIN_IN_SYNC, needed),
            topic=spec.name,
        )
    for name in sorted(spec.required):
        wanted, has = spec.config.get(name), found.config.get(name)
        if wanted is not None and not _fits(name, wanted, has):
            yield TopicFinding(
                f"topic {spec.name!r} has {name}={has}, {wanted} is needed: without it records would be lost.",
                f"Set it with {config_command(spec.name, name, wanted)}, after you know why it was changed.",
                setting=(name, wanted),
                topic=spec.name,
            )


def _fits(name: str, wanted: str, has: str | None) -> bool:
    if has is None or wanted == has:
        return wanted == has
    if name == "cleanup.policy":
        return set(wanted.split(",")) == set(has.split(","))
    return False


def config_command(topic: str, name: str, value: str) -> str:
    """What gives a topic a setting, as a person types it."""
    shown = f"[{value}]" if "," in value else value
    return f"kafka-configs --alter --entity-type topics --entity-name {topic} --add-config {name}={shown}"


def topic_findings(wanted: WantedTopics, found: Mapping[str, TopicDescription | None]) -> tuple[TopicFinding, ...]:
    """All that is wrong, in the order in which it can be repaired.

    Args:
        found: each of them as it is; None for one that does not exist.
    """
    counts = {topic: at.partitions for topic in wanted.sources if (at := found[topic]) is not None}
    partitions = wanted.num_tasks or next(iter(counts.values()), None)
    return (
        *_of_sources(wanted, found, partitions),
        *_of_control(wanted, found),
        *_of_changelogs(wanted, found, partitions),
        *_of_outputs(wanted, found, partitions),
    )


def _of_sources(
    wanted: WantedTopics, found: Mapping[str, TopicDescription | None], partitions: int | None
) -> Iterator[TopicFinding]:
    expected = f"{wanted.application_id!r} has {partitions} tasks"
    for topic in wanted.sources:
        yield from source_findings(topic, found[topic], partitions, expected)


def source_findings(
    topic: str, found: TopicDescription | None, partitions: int | None, expected: str
) -> Iterator[TopicFinding]:
    """What is wrong with a source topic.

    Args:
        partitions: how many it has to have; None for any number.
        expected: where they are known from, as it is told.
    """
    if found is None:
        yield TopicFinding(
            f"source topic {topic!r} does not exist.",
            "Create it, or correct its name; it is the producer's to say with how many partitions.",
            topic=topic,
        )
    elif partitions is not None and found.partitions != partitions:
        yield TopicFinding(
            f"source topic {topic!r} has {found.partitions} partitions, {expected}: its keys are in other partitions "
            "than they were.",
            "Partitions cannot be taken away, so deploy under a new application id.",
            topic=topic,
        )


def _of_control(wanted: WantedTopics, found: Mapping[str, TopicDescription | None]) -> Iterator[TopicFinding]:
    for spec in wanted.control:
        description = found[spec.name]
        if description is None:
            yield TopicFinding(
                f"control topic {spec.name!r} does not exist.",
                f"Create it with: {_repair_command(wanted)}. No state is in it; {_after_creation(wanted, spec)}.",
                topic=spec.name,
                create=spec,
            )
        else:
            yield from differences(spec, description)


def _of_changelogs(
    wanted: WantedTopics, found: Mapping[str, TopicDescription | None], partitions: int | None
) -> Iterator[TopicFinding]:
    for store in wanted.stores:
        spec = wanted.changelog(store, partitions)
        description = found[spec.name]
        if description is not None:
            yield from differences(spec, description)
        elif wanted.ran and wanted.state_in is not None:
            yield TopicFinding(
                f"changelog {spec.name!r} does not exist; the newest state of {wanted.application_id!r} is in "
                f"{wanted.state_in!r}, of another store.",
                f"Correct the store's name; or, for a store that is to begin empty, at the start of its source: "
                f"{_repair_command(wanted)}.",
                topic=spec.name,
                create=spec if partitions else None,
            )
        elif wanted.ran and spec.name not in wanted.empty:
            yield TopicFinding(
                f"changelog {spec.name!r} does not exist, and {wanted.application_id!r} ran before: the stores on its "
                "hosts are all that is left of the state.",
                "Do not create it yet. Stop the instances, copy their state folders, and follow 'Changelog missing or "
                f"mismatched' in the runbook: python -m airflow_provider.streaming.changelog_rebuild "
                f"{wanted.application_id} --state-dir FOLDER --look.",
                topic=spec.name,
            )
        else:
            yield TopicFinding(
                f"changelog {spec.name!r} does not exist{'' if wanted.ran else ', and nothing was assigned yet'}.",
                f"Create it with: {_repair_command(wanted)}.",
                topic=spec.name,
                create=spec if partitions else None,
            )


def _of_outputs(
    wanted: WantedTopics, found: Mapping[str, TopicDescription | None], partitions: int | None
) -> Iterator[TopicFinding]:
    for topic in wanted.outputs:
        if found[topic] is None:
            spec = TopicSpec(
                name=topic,
                partitions=partitions,
                replication_factor=wanted.replication_factor,
                required=frozenset(),
            )
            yield TopicFinding(
                f"output topic {topic!r} does not exist.",
                f"Create it with: {_repair_command(wanted)}.",
                topic=topic,
                create=spec if partitions else None,
            )


def _after_creation(wanted: WantedTopics, spec: TopicSpec) -> str:
    acted_on = {control.name for control in control_specs(wanted.application_id)}
    return "deploy and assign again afterwards" if spec.name in acted_on else "it is written into from then on"


def _repair_command(wanted: WantedTopics) -> str:
    """All that it has to be told again; the address of the brokers is the caller's."""
    told = [f"--source {topic}" for topic in wanted.sources or ("TOPIC",)]
    told += [f"--output {topic}" for topic in wanted.outputs]
    told += [f"--store {store}" for store in wanted.stores if wanted.stores != ("state",)]
    if wanted.replication_factor is not None:
        told.append(f"--replication-factor {wanted.replication_factor}")
    return f"stateful-streams topics repair {wanted.application_id} {' '.join(told)} --apply"


_SEGMENT = "segment.bytes"
_SEGMENT_MS = "segment.ms"
_DIRTY = "min.cleanable.dirty.ratio"


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
    replicas, in_sync = found.replication_factor, int(found.config.get(MIN_IN_SYNC, 1))
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
            f"topic {found.name!r} has {MIN_IN_SYNC}={in_sync} with {replicas} replicas: a commit that one broker "
            "alone holds is lost with it.",
            (MIN_IN_SYNC, "2"),
        )
    elif replicas > 1 and in_sync >= replicas:
        yield _set(
            found.name,
            f"topic {found.name!r} has {MIN_IN_SYNC}={in_sync} with {replicas} replicas: while one broker is away "
            "nothing can be committed.",
            (MIN_IN_SYNC, str(replicas - 1)),
        )


def _of_compaction(spec: TopicSpec, found: TopicDescription) -> Iterator[TopicFinding]:
    """What is not compacted is read again by every restore, and by every start of Airflow's side."""
    if "compact" not in spec.config.get("cleanup.policy", ""):
        return
    segment, wanted = int(found.config.get(_SEGMENT, 0)), int(spec.config.get(_SEGMENT, 0))
    if wanted and segment > 2 * wanted:
        yield _set(
            found.name,
            f"topic {found.name!r} has segments of {mib(segment, 0)}: the newest of each partition is never "
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
            (DELETE_RETENTION, str(int(1000 * max_absence_s))),
        )


def _set(topic: str, problem: str, setting: tuple[str, str]) -> TopicFinding:
    return TopicFinding(problem, f"Set it with {config_command(topic, *setting)}.", topic=topic, setting=setting)
