"""The topics of an application: the changelogs of its stores, and its control topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider.common.store_signature import EMPTY_STATE
from airflow_provider.errors import ConfigurationError, TopicMismatchError
from airflow_provider.kafka.names import assignment_topic, changelog_topic, check_name
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec, control_plane_specs


@dataclass(frozen=True, kw_only=True)
class ApplicationTopics:
    """What `create_topics` found or made.

    Args:
        partitions: of the sources, and so of each changelog.
        control: the names of the control topics, those of the history and of the metrics among them.
    """

    partitions: int
    changelogs: tuple[str, ...]
    control: tuple[str, ...]
    created: tuple[str, ...]


def create_topics(
    topics: TopicAdmin,
    application_id: str,
    source_topics: Sequence[str],
    stores: Sequence[str],
    replication_factor: int | None = None,
    output_topics: Sequence[str] = (),
    windowed_stores: Collection[str] = (),
) -> ApplicationTopics:
    """Create the changelogs and the control topics of an application, or verify those that exist.

    Args:
        replication_factor: of the topics; None takes the cluster's default and accepts any.
        output_topics: sinks and dead-letter topics, created with the sources' number of partitions where they do not
            exist; those that do may be as they are.
        windowed_stores: those among the stores that belong to windows (`topic_spec.changelog_spec`).

    Raises:
        ConfigurationError: a name cannot be part of a topic, or no source or store was named.
        TopicMissingError: a source does not exist.
        TopicMismatchError: the sources differ in their partitions, a topic exists otherwise than needed, or a changelog
            exists that another application may call its own.
    """
    check_name("application id", application_id)
    if not source_topics or not stores:
        raise ConfigurationError(
            f"{application_id!r} needs at least one source topic and one store, found {list(source_topics)} and "
            f"{list(stores)}: name them."
        )
    found = {topic: topics.partitions(topic) for topic in source_topics}
    if len(set(found.values())) > 1:
        counts = ", ".join(f"{topic}: {count}" for topic, count in found.items())
        raise TopicMismatchError(
            f"The source topics of {application_id!r} have different numbers of partitions ({counts}): a task reads "
            "the same partition of each, so recreate them with the same number."
        )
    partitions = next(iter(found.values()))
    changelogs = [
        changelog_spec(
            application_id,
            check_name("store", store),
            partitions,
            replication_factor,
            store in windowed_stores,
        )
        for store in stores
    ]
    refuse_those_of_others(topics, application_id, stores)
    existing = [at for spec in changelogs if (at := topics.describe(spec.name)) is not None]
    check_partitions(source_topics[0], partitions, {at.name: at.partitions for at in existing})
    control = control_plane_specs(application_id, replication_factor)
    outputs = [
        TopicSpec(name=name, partitions=partitions, replication_factor=replication_factor, required=frozenset())
        for name in output_topics
        if topics.describe(name) is None
    ]
    # The control topics first: from then on the changelogs are known to be this application's.
    created = topics.ensure([*control, *changelogs, *outputs])
    return ApplicationTopics(
        partitions=partitions,
        changelogs=tuple(spec.name for spec in changelogs),
        control=tuple(spec.name for spec in control),
        created=created,
    )


def other_owners(application_id: str, store: str) -> list[str]:
    """The ids of other applications that have a changelog of the same name for some store of theirs.

    A name's parts are joined by ``-``, which each part may hold, too: ``x`` with the store ``y-state`` and ``x-y`` with
    the store ``state`` come to the same topic.
    """
    parts = f"{application_id}-{store}".split("-")
    ids = ["-".join(parts[:at]) for at in range(1, len(parts))]
    return [other for other in ids if other not in ("", application_id) and parts[len(other.split("-"))]]


def refuse_those_of_others(topics: TopicAdmin, application_id: str, stores: Sequence[str]) -> None:
    """A new application takes no changelog that is there already and that an older one may have made.

    Args:
        application_id: the application; it is new where it has no assignment topic.

    Raises:
        TopicMismatchError: a changelog exists that another application may call its own.
    """
    if topics.describe(assignment_topic(application_id)) is not None:
        return
    for store in stores:
        changelog = changelog_topic(application_id, store)
        for other in other_owners(application_id, store):
            if topics.describe(changelog) is not None and topics.describe(assignment_topic(other)) is not None:
                other_store = f"{application_id}-{store}".removeprefix(f"{other}-")
                raise TopicMismatchError(
                    f"{application_id!r} is new, but its changelog {changelog!r} exists, and the application {other!r} "
                    f"exists, too, whose store {other_store!r} has a changelog of that name: the two would mix their "
                    "state. Use another application id or store name; or delete that topic if nobody needs it."
                )


_GROWN: Final = (
    "What was added is not read, and a producer puts a key into another partition than before, where its state is not. "
    "Partitions cannot be taken away: copy the records into a new topic and read that under a new application id; see "
    "'Partitions were added to the source' in the runbook. The changelog is as it has to be: leave it alone."
)


def source_spec(name: str, partitions: int) -> TopicSpec:
    """A source as an instance found it at its start."""
    return TopicSpec(
        name=name,
        partitions=partitions,
        required=frozenset(),
        if_missing=missing_source(partitions),
        if_resized=f"It is the job's source, and its partitions were changed. {_GROWN}",
    )


def missing_source(partitions: int | None) -> str:
    """What to do where a source does not exist.

    Args:
        partitions: how many the application's changelog has; None where there is none.
    """
    if partitions is None:
        return "It is the job's source: create it, or correct its name."
    return (
        f"It is the job's source. If it never existed, create it with {partitions} partitions, or correct its name. If "
        "it was deleted, find out who did it: what was not read of it is lost, and committed positions mean nothing in "
        f"another topic of that name. Create it again with {partitions} partitions, and deploy the job so that it "
        f"begins empty at its start, with {EMPTY_STATE}. With the old one, tasks that have processed something fail "
        "with TopicMismatchError."
    )


def check_partitions(source: str, partitions: int, changelogs: Mapping[str, int]) -> None:
    """Refuse a source that has not as many partitions as the changelogs of the job that reads it.

    Args:
        changelogs: by name how many partitions those that exist have.

    Raises:
        TopicMismatchError: one has another number. It says which topic was changed, and never that the changelog is to
            be created again: the state is in it.
    """
    for changelog, before in changelogs.items():
        if partitions > before:
            raise TopicMismatchError(
                f"Partitions were added to the source topic {source!r}: it has {partitions}, and had {before} when the "
                f"changelog {changelog!r} was created. {_GROWN}"
            )
        if partitions < before:
            raise TopicMismatchError(
                f"The source topic {source!r} has {partitions} partitions, and its changelog {changelog!r} {before}: "
                "either the source was created again with fewer, or partitions were added to the changelog. Find out "
                "which; the state is in the changelog, so do not delete it. See 'Changelog missing or mismatched' in "
                "the runbook."
            )
