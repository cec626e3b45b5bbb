"""Whether each owner of a task went on where the one before it stopped: pure functions.

The changelog is the truth: where each owner went on, and whether one wrote after its successor, is read from it, by
code that shares nothing with what wrote it, and not from what the instances report. Commits are in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role, TaskStatus
from airflow_provider.control.topics.commits import Commit
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import StateError

_LOOK = "Stop the application, keep its stores and changelogs, and look at the instances' logs."


def source_offsets(view: ControlView) -> dict[TaskId, int]:
    """The next input offset of each task, as its assigned active reported it; tasks without one are left out."""
    return {task.task: task.source_offset for task in _actives(view) if task.source_offset is not None}


def changelog_positions(view: ControlView) -> dict[TaskId, int]:
    """The changelog offset up to which each task's active is applied, as it reported it; tasks without are left out."""
    return {task.task: task.position for task in _actives(view) if task.position is not None}


def standbys_certified(view: ControlView) -> bool:
    """Whether there are standbys, and each was found to hold what its active does."""
    given = view.assignment.tasks.items() if view.assignment else ()
    copies = [(task_id, view.statuses.get(name)) for task_id, task in given for name in task.standbys]
    found = [None if status is None else status.task(task_id) for task_id, status in copies]
    return bool(found) and all(copy is not None and copy.certificate.position is not None for copy in found)


def check_resumption(before: Mapping[TaskId, int], resumed: Mapping[TaskId, int]) -> None:
    """The next owners went on from the last commit, not from an earlier one.

    Args:
        before: by task that was moved, the source offset that its owner had committed when the fault was injected. It
            may have committed more until it died.

    Raises:
        StateError: an owner went on before that offset, or none is on record: input was processed twice.
    """
    for task, offset in sorted(before.items()):
        went_on = resumed.get(task)
        if went_on is None or went_on < offset:
            found = "no offset is on record" if went_on is None else f"it went on at {went_on}"
            raise StateError(
                f"The next owner of task {task} had to go on at source offset {offset} or later, and {found}: commits "
                "were lost. Stop the application, keep its stores and changelogs, and look at the instances' logs."
            )


def check_progress(before: Mapping[TaskId, int], after: Mapping[TaskId, int]) -> dict[TaskId, int]:
    """How far each task's source has moved on since.

    Raises:
        StateError: a task is behind where it was, or reports no offset any more.
    """
    for task, offset in sorted(before.items()):
        now = after.get(task)
        if now is None or now < offset:
            raise StateError(
                f"Task {task} was at source offset {offset} before the failure and is at {now} after it: commits "
                "were lost. Stop the application, keep its stores and changelogs, and look at the instances' logs."
            )
    return {task: after[task] - offset for task, offset in before.items()}


def check_chain(task: TaskId, commits: Sequence[Commit]) -> None:
    """Each commit goes on from the one before it, and no owner writes after its successor.

    Commits between two of them may have been compacted away.

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
    """The last commit before an owner's first one, where nothing was compacted away between them; None otherwise."""
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

    Raises:
        StateError: one went on elsewhere.
    """
    for task, offset in sorted(resumed.items()):
        last = last_before(commits.get(task, ()), generation)
        if last is not None and last.offset != offset:
            raise StateError(f"The next owner of task {task} went on at source offset {offset}, after {last}. {_LOOK}")


def _actives(view: ControlView) -> Iterator[TaskStatus]:
    for task_id, given in view.assignment.tasks.items() if view.assignment else ():
        status = view.statuses.get(given.active) if given.active else None
        task = status.task(task_id) if status else None
        if task is not None and task.role is Role.ACTIVE:
            yield task


def _same_owner(before: Commit, after: Commit) -> bool:
    """An instance that is started again goes on in the generation that it had, if nobody took over in between."""
    return after.instance == before.instance and after.incarnation >= before.incarnation
