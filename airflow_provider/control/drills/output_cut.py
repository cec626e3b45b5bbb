"""Counting outputs between two cuts through an application's topics: pure functions, and what they decide on.

A cut is a moment at which no transaction is open in the tasks' changelogs or in the topics that the job writes to. What
the tasks' last commits before it count then is what lies in those topics before it, and the same holds behind it: so
the records between two cuts are as many as the commits count from one to the other, to the record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.commit_chain import Commit
from airflow_provider.control.history.output_check import OutputCheck, OutputCount
from airflow_provider.errors import StateError

__all__ = ["MAX_OUTPUTS", "NotCountedError", "OutputCut", "check_outputs", "compare", "spans", "written_by"]

MAX_OUTPUTS: Final = 2_000_000
"""How many offsets of a topic are read at the most, so that a drill stays cheap."""


class NotCountedError(Exception):
    """Outputs cannot be counted, which says nothing of the application; the text says why."""


@dataclass(frozen=True, kw_only=True)
class OutputCut:
    """How much had been written at a moment at which nothing was being written.

    Args:
        tasks: of the application.
        written: by topic, what the last commits of all tasks count together.
        ends: by topic, the end of each of its partitions.
        unmeasured: why there is none of this; None where there is.
        taken_at_ms: when, by this host's clock, epoch ms; None where an earlier version of this package took it.
    """

    tasks: tuple[TaskId, ...] = ()
    written: dict[str, int] = field(default_factory=dict)
    ends: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unmeasured: str | None = None
    taken_at_ms: int | None = None


def written_by(commits: Mapping[TaskId, Commit | None], between: Collection[str] = ()) -> dict[str, int]:
    """By topic, what the tasks have written into it.

    Args:
        commits: the last one of each task; None where it has not committed.
        between: topics between stages, which are no output.

    Raises:
        NotCountedError: nothing was committed, a commit counts nothing, or the job writes nowhere.
    """
    written: dict[str, int] = {}
    last = {task: commit for task, commit in commits.items() if commit is not None}
    if not last:
        raise NotCountedError("nothing was committed before the fault")
    for task, commit in sorted(last.items()):
        if commit.outputs is None:
            raise NotCountedError(f"{commit} of task {task} is of a version of this package that counts no outputs")
        for topic, number in commit.outputs.items():
            if topic not in between:
                written[topic] = written.get(topic, 0) + number
    if not written:
        raise NotCountedError("the job has neither a sink nor a dead-letter topic")
    return written


def spans(topic: str, before: OutputCut, after: OutputCut) -> dict[int, tuple[int, int]]:
    """What has to be read of a topic between two cuts: by partition, the first offset, and the one after the last.

    Raises:
        NotCountedError: the topic has other partitions, was created again, or got more than is read.
    """
    begins, ends = before.ends[topic], after.ends.get(topic, ())
    # A topic that got further partitions had nothing in them before.
    begins += (0,) * (len(ends) - len(begins))
    if len(ends) < len(begins) or any(end < begin for begin, end in zip(begins, ends, strict=True)):
        raise NotCountedError(f"{topic} was created again during the drill")
    number = sum(ends) - sum(begins)
    if number > MAX_OUTPUTS:
        raise NotCountedError(f"{topic} got {number:,} records during the drill, and {MAX_OUTPUTS:,} are read")
    return {at: (begins[at], ends[at]) for at in range(len(ends)) if begins[at] < ends[at]}


def compare(
    before: OutputCut,
    after: OutputCut,
    found: Mapping[str, int],
    commits: Iterable[Commit] = (),
    lost: Mapping[str, tuple[int, str]] = MappingProxyType({}),
) -> OutputCheck:
    """What lies in the topics between two cuts, and what the commits between them stand for.

    Args:
        before: the earlier cut.
        after: the later.
        found: by topic of the earlier cut, the committed records between them.
        commits: those that are known to lie between them, of any task.
        lost: by topic, how many offsets between them are gone although the topic keeps them, and its settings, which
            do not explain it; a topic that lost none may be missing.
    """
    short = [topic for topic, number in before.written.items() if after.written.get(topic, 0) < number]
    if short or any(commit.outputs is None for commit in commits):
        return OutputCheck(unmeasured="commits were made by versions of this package of which one counts no outputs")
    return OutputCheck(
        counts=tuple(
            _counted(topic, after.written.get(topic, 0) - number, found[topic], *lost.get(topic, (0, "")))
            for topic, number in sorted(before.written.items())
        )
    )


def _counted(topic: str, committed: int, found: int, lost: int, settings: str) -> OutputCount:
    return OutputCount(topic=topic, committed=committed, found=found, lost=lost, settings=settings)


def check_outputs(outputs: OutputCheck) -> None:
    """Every output that was committed is there, and none besides.

    Args:
        outputs: as they were counted; where they were not, nothing is said against them.

    Raises:
        StateError: some were deleted without a reason, are missing, or there are more than were committed.
    """
    lines = []
    for count in outputs.counts:
        if count.lost:
            lines.append(
                f"{count.topic} has lost {count.lost:,} offsets since the fault, and its settings ({count.settings}) "
                "do not explain it: a person or a program deleted them, or a broker lost them. Find out which; what of "
                "the output is gone can only be had from a copy, or by processing the source again."
            )
            continue
        counted = f"{count.topic} holds {count.found:,} records since the fault, and the commits stand for"
        if count.missing:
            lines.append(
                f"{counted} {count.committed:,}: {count.missing:,} are missing. Keep the topic, and look whether its "
                "partitions lost records and at the instances' logs."
            )
        elif count.doubled:
            lines.append(
                f"{counted} {count.committed:,}: {count.doubled:,} are doubled, or another program writes there. Look "
                "for keys that stand there twice; where other programs do write there, drill with shared_sink."
            )
    if lines:
        raise StateError(" ".join(lines))
