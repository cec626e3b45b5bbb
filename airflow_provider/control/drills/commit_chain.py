"""What a task's commits during a drill say: pure functions that share no code with what wrote them.

The changelog is the truth: where each owner went on, and whether one wrote after its successor, is read from it, and
not from what the instances report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import StateError

__all__ = ["COMMIT_KEY", "Commit", "check_chain", "check_resumed_exactly", "last_before"]

COMMIT_KEY: Final = b"\xff\xfestateful-streams/commit"
"""Of a commit record in a changelog (``docs/formats.md``)."""

_LOOK = "Stop the application, keep its stores and changelogs, and look at the instances' logs."


class Source(msgspec.Struct, frozen=True):
    """Up to where a source's partition is processed."""

    offset: int


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked at of a commit record.

    Args:
        sequence: greater by one with each.
        generation: the committing owner's.
        instance: that committed.
        incarnation: the process of it.
        sources: by topic, up to where the task's partition is processed.
        processed: input records since the beginning of the application.
        outputs: by topic, the records that were written there; None where it does not count them.
    """

    sequence: int
    generation: int
    instance: str
    incarnation: int
    sources: dict[str, Source]
    processed: int = 0
    outputs: dict[str, int] | None = None

    @property
    def offset(self) -> int:
        """Of the next input record, of all sources together."""
        return sum(source.offset for source in self.sources.values())

    def __str__(self) -> str:
        """For a message."""
        return (
            f"commit {self.sequence} of {self.instance} (generation {self.generation}, source offset {self.offset}, "
            f"{self.processed} records)"
        )


def check_chain(task: TaskId, commits: Sequence[Commit]) -> None:
    """Each commit goes on from the one before it, and no owner writes after its successor.

    Commits between two of them may have been compacted away.

    Args:
        task: whose.
        commits: in the order of the changelog.

    Raises:
        StateError: a commit was made twice, an owner wrote after its successor, two owners wrote in one generation,
            the source went back, or more records were counted than its offsets hold.
    """
    for before, after in pairwise(commits):
        why = None
        if after.generation < before.generation:
            why = "an owner wrote after its successor"
        elif after.sequence <= before.sequence:
            why = "it does not go on from the commit before it"
        elif after.generation == before.generation and not _same_owner(before, after):
            why = "two owners wrote in one generation"
        elif after.offset < before.offset:
            why = "its source went back"
        elif after.processed - before.processed > after.offset - before.offset:
            why = "records were counted twice"
        if why is not None:
            raise StateError(f"Task {task}: {after} follows {before}: {why}. {_LOOK}")


def last_before(commits: Sequence[Commit], generation: int) -> Commit | None:
    """The last commit before an owner's first one, where nothing was compacted away between them; None otherwise.

    Args:
        commits: in the order of the changelog.
        generation: the owner's.
    """
    for before, after in pairwise(commits):
        if before.generation < generation <= after.generation:
            return before if after.sequence == before.sequence + 1 else None
    return None


def check_resumed_exactly(
    commits: Mapping[TaskId, Sequence[Commit]], generation: int, resumed: Mapping[TaskId, int]
) -> None:
    """The next owners went on at the very offset of the last commit before their first, no later and no earlier.

    Args:
        commits: by task, in the order of the changelog.
        generation: in which they got the tasks.
        resumed: by task, the source offset with which its next owner went on.

    Raises:
        StateError: one went on elsewhere.
    """
    for task, offset in sorted(resumed.items()):
        last = last_before(commits.get(task, ()), generation)
        if last is not None and last.offset != offset:
            raise StateError(f"The next owner of task {task} went on at source offset {offset}, after {last}. {_LOOK}")


def _same_owner(before: Commit, after: Commit) -> bool:
    """An instance that is started again goes on in the generation that it had, if nobody took over in between."""
    return after.instance == before.instance and after.incarnation >= before.incarnation
