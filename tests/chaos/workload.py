"""What runs under chaos: a job, the load of its sources, and the judge of what comes out."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from airflow_provider.common.task_id import TaskId
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, control_specs
from tests.chaos.judge import Record, Verdict
from tests.chaos.load import TransactionalLoad


class Workload(ABC):
    """One job that may be put under chaos."""

    application: ClassVar[str]
    job_file: ClassVar[Path]
    lacks: ClassVar[Sequence[str]] = ()
    """Faults that need what this job does not have."""
    tasks: Sequence[TaskId]
    """All of the application."""
    upstream: Sequence[TaskId] = ()
    """Those of them that write for another stage."""

    @abstractmethod
    def create_topics(self, connection: KafkaConnection) -> None:
        """All of them, as the deploy DAG does; the user's too."""

    def ensure_control_topics(self, connection: KafkaConnection) -> None:
        """As `CreateChangelogTopicsOperator` does."""
        TopicAdmin(connection).ensure(map(kept, control_specs(self.application)))

    @abstractmethod
    def load(self, bootstrap_servers: str, rate: int, seed: int) -> TransactionalLoad:
        """Not started."""

    @abstractmethod
    def marks(self, committed: Mapping[tuple[str, int], int]) -> dict[TaskId, int]:
        """By task that reads a source of the load, the offset up to which it was written."""

    @abstractmethod
    def ends(self, bootstrap_servers: str) -> dict[TaskId, int]:
        """By task, the offset after the last record of its source as it is now."""

    def write_last(self, load: TransactionalLoad) -> bool:
        """Write what is to come behind everything else, once all of that is processed; says whether there is any."""
        return False

    @abstractmethod
    def judge(
        self, bootstrap_servers: str, state_dirs: Mapping[str, Path], lost: Sequence[Sequence[Record]]
    ) -> Verdict:
        """Compare what came out with what had to come out; every instance has stopped.

        Args:
            bootstrap_servers: of the broker.
            state_dirs: by instance, the folder of its stores.
            lost: what earlier lives of the assignment topic held.
        """


def kept(spec: TopicSpec) -> TopicSpec:
    """Not compacted while a run lasts: the judge wants to know every generation that there ever was."""
    return dataclasses.replace(spec, config={**spec.config, "min.compaction.lag.ms": str(86_400_000)})
