"""What the tasks of an application commit, as it is looked at from outside: where, and read from there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
from confluent_kafka import Message

from airflow_provider.common.json_codec import from_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.job_description import TopicKind
from airflow_provider.control.topics.span_reader import SpanReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import changelog_topic
from airflow_provider.kafka.topic_admin import TopicAdmin

COMMIT_KEY: Final = b"\xff\xfestateful-streams/commit"
"""Of a commit record in a changelog (``docs/formats.md``)."""


class Source(msgspec.Struct, frozen=True):
    """Up to where a source's partition is processed."""

    offset: int


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked at of a commit record.

    Args:
        sequence: greater by one with each.
        generation: the committing owner's.
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
        return (
            f"commit {self.sequence} of {self.instance} (generation {self.generation}, source offset {self.offset}, "
            f"{self.processed} records)"
        )


@dataclass(frozen=True)
class CommitTopics:
    """The topics with the commits of an application's tasks: changelogs, and those of stages without a store.

    Args:
        by_stage: the topic of each stage; partition *i* is that of task *i*.
        between: the topics between stages, which are no output of the application.
    """

    by_stage: Mapping[int, str]
    between: frozenset[str] = frozenset()

    @classmethod
    def of(cls, view: ControlView, store: str) -> CommitTopics:
        """Those of an application.

        Args:
            store: of a job that was not described: it has one stage, which commits into the changelog of this store.
        """
        if view.job is None:
            return cls({0: changelog_topic(view.application_id, store)})
        kinds = (TopicKind.CHANGELOG, TopicKind.COMMITS)
        by_stage = {topic.stage: topic.name for topic in view.job.topics if topic.kind in kinds}
        return cls(by_stage, frozenset(view.job.names(TopicKind.REPARTITION)))

    def tasks_by_topic(self, tasks: Iterable[TaskId]) -> dict[str, dict[int, TaskId]]:
        """By topic and partition the task that commits there.

        Args:
            tasks: one of a stage that the job has no more is left out.
        """
        found: dict[str, dict[int, TaskId]] = {}
        for task in tasks:
            if task.stage in self.by_stage:
                found.setdefault(self.by_stage[task.stage], {})[task.partition] = task
        return found


log = logging.getLogger(__name__)

T = TypeVar("T")

_NEAR: Final = 64
"""How many offsets before its end a task's last commit is looked for at first."""
_FURTHER: Final = 64
"""How many times as many the next time: what was aborted may lie behind it."""


def read_commits(
    connection: KafkaConnection, application_id: str, topics: CommitTopics, positions: Mapping[TaskId, int]
) -> dict[TaskId, list[Commit]]:
    """The commits of each task since a position, in their order; none where there is no such topic."""
    found: dict[TaskId, list[Commit]] = {task: [] for task in positions}
    for topic, tasks in topics.tasks_by_topic(positions).items():
        try:
            ends = TopicAdmin(connection).latest_offsets(topic, tasks, committed=True)
        except TopicMissingError:
            continue
        spans = {number: (positions[task], ends[number]) for number, task in tasks.items()}
        with SpanReader(connection, application_id, topic) as reader:
            for number, commit in _commits_in(reader.read(spans)):
                found[tasks[number]].append(commit)
    return found


def last_commits(
    connection: KafkaConnection, application_id: str, topics: CommitTopics, ends: Mapping[TaskId, int]
) -> dict[TaskId, Commit | None]:
    """The last commit of each task before an offset of where it commits; None where it had none.

    As `last_of_tasks`.
    """

    def read(record: Message) -> Commit | None:
        return next((commit for _, commit in _commits_in([record])), None)

    return last_of_tasks(connection, application_id, topics, ends, read)


def last_of_tasks(
    connection: KafkaConnection,
    application_id: str,
    topics: CommitTopics,
    ends: Mapping[TaskId, int],
    read: Callable[[Message], T | None],
) -> dict[TaskId, T | None]:
    """What is made of the last commit of each task before an offset of where it commits; None where it had none.

    Args:
        ends: by task, the offset before which it lies; at none of them a transaction is open.
        read: makes it of a commit record; None leaves the record out.

    Raises:
        StatefulStreamsError: there is no such topic, or it may not be read.
    """
    found: dict[TaskId, T | None] = dict.fromkeys(ends)
    for topic, tasks in topics.tasks_by_topic(ends).items():
        left, back = [task for task in tasks.values() if ends[task] > 0], _NEAR
        with SpanReader(connection, application_id, topic) as reader:
            while left:
                spans = {task.partition: (max(0, ends[task] - back), ends[task]) for task in left}
                for record in reader.read(spans):
                    if record.key() == COMMIT_KEY and (made := read(record)) is not None:
                        found[tasks[int(record.partition() or 0)]] = made
                left, back = [task for task in left if found[task] is None and ends[task] > back], back * _FURTHER
    return found


def _commits_in(records: Iterable[Message]) -> Iterator[tuple[int, Commit]]:
    """The commits among a changelog's records, each with its partition."""
    for record in records:
        if record.key() != COMMIT_KEY:
            continue
        try:
            commit = from_json(record.value() or b"", Commit)
        except msgspec.DecodeError as why:
            log.warning("A commit record of %s cannot be read and is left out: %s", record.topic(), why)
        else:
            yield int(record.partition() or 0), commit
