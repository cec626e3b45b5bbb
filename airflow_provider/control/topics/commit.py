"""What the tasks of an application commit, as it is looked at from outside, and where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.job_description import TopicKind
from airflow_provider.control.topics.view import ControlView
from airflow_provider.kafka.names import changelog_topic

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
        instance: that committed.
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
            view: what its control topics hold.
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
