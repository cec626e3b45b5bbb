"""What is wrong with an application's topics, and what makes each right: a pure function of what the brokers say."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass

from airflow_provider.kafka.topic_spec import (
    TopicDescription,
    TopicSpec,
    changelog_spec,
    control_specs,
    differences,
    history_spec,
    metrics_spec,
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
        """The two control topics, that of the history, and that of the metrics."""
        return (
            *control_specs(self.application_id, self.replication_factor),
            history_spec(self.application_id, self.replication_factor),
            metrics_spec(self.application_id, self.replication_factor),
        )

    def changelog(self, store: str, partitions: int | None) -> TopicSpec:
        """The changelog of one of its stores; with None for `partitions`, of any number of them."""
        windowed = store in self.windowed_stores
        spec = changelog_spec(self.application_id, store, partitions or 1, self.replication_factor, windowed)
        return spec if partitions else dataclasses.replace(spec, partitions=None)

    def known(self, num_tasks: int | None, ran: bool) -> WantedTopics:
        """The same, by what the control topics hold.

        Args:
            num_tasks: how many tasks are assigned; None before the first assignment.
            ran: whether an instance has sent a status.
        """
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
        problem: what was found, and what is needed.
        fix: what a person does about it.
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


def topic_findings(wanted: WantedTopics, found: Mapping[str, TopicDescription | None]) -> tuple[TopicFinding, ...]:
    """All that is wrong, in the order in which it can be repaired.

    Args:
        wanted: the topics that the application needs.
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
    for topic in wanted.sources:
        description = found[topic]
        if description is None:
            yield TopicFinding(
                f"source topic {topic!r} does not exist.",
                "Create it, or correct its name; it is the producer's to say with how many partitions.",
                topic=topic,
            )
        elif partitions is not None and description.partitions != partitions:
            yield TopicFinding(
                f"source topic {topic!r} has {description.partitions} partitions, {wanted.application_id!r} has "
                f"{partitions} tasks: its keys are in other partitions than they were.",
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
            yield from _of_existing(spec, description)


def _of_changelogs(
    wanted: WantedTopics, found: Mapping[str, TopicDescription | None], partitions: int | None
) -> Iterator[TopicFinding]:
    for store in wanted.stores:
        spec = wanted.changelog(store, partitions)
        description = found[spec.name]
        if description is not None:
            yield from _of_existing(spec, description)
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


def _of_existing(spec: TopicSpec, found: TopicDescription) -> Iterator[TopicFinding]:
    for difference in differences(spec, found):
        yield TopicFinding(difference.problem, difference.fix, topic=spec.name, setting=difference.setting)


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
