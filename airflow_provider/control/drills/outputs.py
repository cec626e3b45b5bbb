"""Counts what an application wrote into its sink and dead-letter topics during a drill: between two cuts through them.

A cut is a moment at which no transaction is open in the tasks' changelogs or in the topics that the job writes to. What
the tasks' last commits before it count then is what lies in those topics before it, and the same holds behind it: so
the records between two cuts are as many as the commits count from one to the other, to the record.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.drill_fault import OutputCut
from airflow_provider.control.records.history import OutputCheck, OutputCount
from airflow_provider.control.topics.commits import Commit, CommitTopics, last_commits
from airflow_provider.control.topics.span_reader import SpanReader
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin

MAX_OUTPUTS: Final = 2_000_000
"""How many offsets of a topic are read at the most, so that a drill stays cheap."""
_LOOK_S: Final = 0.01
_CLOCKS_MS: Final = 3_600_000
"""By how much the clock that timed a record may be behind."""
_NAMES: Final = ("cleanup.policy", "retention.ms", "retention.bytes")


class NotCountedError(Exception):
    """Outputs cannot be counted, which says nothing of the application; the text says why."""


def take_cut(
    connection: KafkaConnection,
    application_id: str,
    topics: CommitTopics,
    tasks: Sequence[TaskId],
    timeout_s: float = 20.0,
) -> OutputCut:
    """Wait for a moment in which nothing is being written, and note what had been written until then.

    It asks for the ends of what is committed and then for those of all that lies in the topics: where both are the
    same, no transaction was open and nothing was written between the two. Nothing is held up by that, so an application
    that writes without a pause has no such moment.

    Returns:
        With the reason, where there was no such moment, or nothing can be counted by other reasons.
    """
    try:
        return _cut(connection, application_id, topics, tuple(tasks), timeout_s)
    except (NotCountedError, StatefulStreamsError) as why:
        return OutputCut(unmeasured=str(why))


def count_outputs(
    connection: KafkaConnection,
    application_id: str,
    topics: CommitTopics,
    before: OutputCut | None,
    *,
    commits: Iterable[Commit] = (),
) -> OutputCheck:
    """Take another cut, and compare what lies between the two with what the commits stand for.

    Args:
        before: from before the fault; None where none was taken.
        commits: those that are known since then, of any task.

    Returns:
        With the reason, where they cannot be counted.
    """
    if before is None:
        return OutputCheck(unmeasured="they were not to be counted")
    if before.unmeasured is not None:
        return OutputCheck(unmeasured=before.unmeasured)
    after = take_cut(connection, application_id, topics, before.tasks)
    if after.unmeasured is not None:
        return OutputCheck(unmeasured=after.unmeasured)
    try:
        admin, found, lost = TopicAdmin(connection), {}, {}
        for topic in before.written:
            between = spans(topic, before, after)
            found[topic] = _count(connection, application_id, topic, between)
            lost[topic] = _lost(admin, topic, between, before.taken_at_ms)
        checked = compare(before, after, found, commits, lost)
        for count in checked.counts:
            if count.missing and compacts(_config(admin, count.topic)):
                raise NotCountedError(f"{count.topic} is compacted, and does not keep every record")
    except (NotCountedError, StatefulStreamsError) as why:
        return OutputCheck(unmeasured=str(why))
    return checked


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
            OutputCount(
                topic=topic,
                committed=after.written.get(topic, 0) - number,
                found=found[topic],
                lost=lost.get(topic, (0, ""))[0],
                settings=lost.get(topic, (0, ""))[1],
            )
            for topic, number in sorted(before.written.items())
        )
    )


def compacts(config: Mapping[str, str]) -> bool:
    """Whether the topic does not keep every record."""
    return "compact" in config.get("cleanup.policy", "")


def explains(config: Mapping[str, str], age_ms: int | None) -> bool:
    """Whether compaction or retention may have removed records of an age; so also where that is not known.

    Args:
        age_ms: of the oldest that are gone, at the most; None where it is not known.
    """
    if age_ms is None or compacts(config):
        return True
    if "delete" not in config.get("cleanup.policy", ""):
        return False
    # How large a partition was before, nobody says.
    by_size = int(config.get("retention.bytes", "-1")) >= 0
    kept_ms = int(config.get("retention.ms", "-1"))
    return by_size or 0 <= kept_ms <= age_ms + _CLOCKS_MS


def settings_text(config: Mapping[str, str]) -> str:
    """The settings that were looked at, for a message."""
    return ", ".join(f"{name}={config.get(name)}" for name in _NAMES)


def _cut(
    connection: KafkaConnection,
    application_id: str,
    topics: CommitTopics,
    tasks: tuple[TaskId, ...],
    timeout_s: float,
) -> OutputCut:
    admin, committing = TopicAdmin(connection), topics.tasks_by_topic(tasks)
    looked_at = {topic: list(of) for topic, of in committing.items()}
    deadline = time.monotonic() + timeout_s
    while True:
        taken_at_ms = now_ms()
        committed = {topic: dict(admin.latest_offsets(topic, of, committed=True)) for topic, of in looked_at.items()}
        ends = {topic: dict(admin.latest_offsets(topic, of)) for topic, of in looked_at.items()}
        if committed == ends:
            at = {task: ends[topic][number] for topic, of in committing.items() for number, task in of.items()}
            written = written_by(last_commits(connection, application_id, topics, at), topics.between)
            if written.keys() <= looked_at.keys():
                break
            # Which topics the job writes to is known by now: look again, at these too.
            looked_at |= {topic: list(range(admin.partitions(topic))) for topic in written}
        elif time.monotonic() > deadline:
            busy = ", ".join(topic for topic in looked_at if committed[topic] != ends[topic])
            raise NotCountedError(f"something was being written into {busy} all the while, for {timeout_s:g} s")
        else:
            time.sleep(_LOOK_S)
    return OutputCut(
        tasks=tasks,
        written=written,
        ends={topic: tuple(ends[topic][number] for number in looked_at[topic]) for topic in written},
        taken_at_ms=taken_at_ms,
    )


def _count(connection: KafkaConnection, application_id: str, topic: str, between: Mapping[int, tuple[int, int]]) -> int:
    if not between:
        return 0
    with SpanReader(connection, application_id, topic) as reader:
        return sum(1 for _ in reader.read(between))


def _lost(
    admin: TopicAdmin, topic: str, between: Mapping[int, tuple[int, int]], since_ms: int | None
) -> tuple[int, str]:
    """How many offsets between two cuts are gone although the topic keeps them, and what it says that it keeps.

    Asked for after the topic was read: what goes before is not found either way.
    """
    firsts = admin.earliest_offsets(topic, between) if between else {}
    gone = sum(max(0, min(firsts[number], end) - begin) for number, (begin, end) in between.items())
    if not gone:
        return 0, ""
    config = _config(admin, topic)
    age_ms = None if since_ms is None or not config else now_ms() - since_ms
    if explains(config, age_ms):
        raise NotCountedError(f"{topic} has deleted records that are younger than the fault ({settings_text(config)})")
    return gone, settings_text(config)


def _config(admin: TopicAdmin, topic: str) -> Mapping[str, str]:
    """The topic's settings; none where it is gone."""
    found = admin.describe(topic)
    return {} if found is None else found.config
