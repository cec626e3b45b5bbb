"""A job's source topic: what it has to be, and what follows where it is not that any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider.common.store_signature import EMPTY_STATE
from airflow_provider.errors import TopicMismatchError
from airflow_provider.kafka.topic_spec import TopicSpec

_GROWN: Final = (
    "What was added is not read, and a producer puts a key into another partition than before, where its state is not. "
    "Partitions cannot be taken away: copy the records into a new topic and read that under a new application id; see "
    "'Partitions were added to the source' in the runbook. The changelog is as it has to be: leave it alone."
)


def source_spec(name: str, partitions: int) -> TopicSpec:
    """A source as an instance found it at its start.

    Args:
        name: the topic.
        partitions: how many it had.
    """
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
        source: the topic.
        partitions: how many it has.
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
