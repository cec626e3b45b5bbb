"""Counts what an application wrote into its sink and dead-letter topics during a drill."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.commit_topics import CommitTopics
from airflow_provider.control.drills.commit_chain import Commit
from airflow_provider.control.drills.commit_reader import last_commits
from airflow_provider.control.drills.output_cut import NotCountedError, OutputCut, compare, spans, written_by
from airflow_provider.control.drills.retention import compacts, explains, settings_text
from airflow_provider.control.history.output_check import OutputCheck
from airflow_provider.control.span_reader import SpanReader
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin

__all__ = ["count_outputs", "take_cut"]

_LOOK_S: Final = 0.01


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

    Args:
        connection: the cluster.
        application_id: the application.
        topics: where its tasks commit.
        tasks: of the application.
        timeout_s: how long to wait for such a moment.

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
    timeout_s: float = 120.0,
) -> OutputCheck:
    """Take another cut, and compare what lies between the two with what the commits stand for.

    Args:
        connection: the cluster.
        application_id: the application.
        topics: where its tasks commit.
        before: from before the fault; None where none was taken.
        commits: those that are known since then, of any task.
        timeout_s: how long a topic may take to read.

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
            found[topic] = _count(connection, application_id, topic, between, timeout_s)
            lost[topic] = _lost(admin, topic, between, before.taken_at_ms)
        checked = compare(before, after, found, commits, lost)
        for count in checked.counts:
            if count.missing and compacts(_config(admin, count.topic)):
                raise NotCountedError(f"{count.topic} is compacted, and does not keep every record")
    except (NotCountedError, StatefulStreamsError) as why:
        return OutputCheck(unmeasured=str(why))
    return checked


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


def _count(
    connection: KafkaConnection,
    application_id: str,
    topic: str,
    between: Mapping[int, tuple[int, int]],
    timeout_s: float,
) -> int:
    if not between:
        return 0
    with SpanReader(connection, application_id, topic, timeout_s=timeout_s) as reader:
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
