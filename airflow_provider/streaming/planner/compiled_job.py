"""A job, compiled: decided once, carried out by driver and workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from airflow_provider.common.task_id import TaskId
from airflow_provider.streaming.planner.stage_spec import StageSpec, stage_of
from airflow_provider.streaming.terms.event_time import EventTime
from airflow_provider.streaming.terms.steps import Step


@dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """How Spark reads the source, and which columns its rows have when they reach a worker.

    Args:
        schema: the JSON value's schema in Spark DDL; None leaves the value as it is.
        decoded_by_worker: whether the values go to the worker as they are, which takes the steps then.
        keeps_records: whether the rows also hold the record's value and timestamp, for dead letters.
        max_offsets_per_trigger: how many records a micro-batch may hold, over its partitions; None for no bound.
        goes_on_after_loss: whether a task goes on without input that was deleted before it was read.
        table: whether the records are rows of a table, whose deletions have no time but the record's.
        changes: as of `StagePlan`.
        from_stage: whether an earlier stage of the job writes the topic, so that what was processed is deleted.
        keyed: whether the record's key is the group.
    """

    application_id: str
    topic: str
    schema: str | None
    steps: tuple[Step, ...]
    key_name: str
    columns: tuple[str, ...]
    decoded_by_worker: bool
    keeps_records: bool
    max_offsets_per_trigger: int | None
    kafka_options: tuple[tuple[str, str], ...]
    goes_on_after_loss: bool = False
    from_stage: bool = False
    keyed: bool = False
    event_time: EventTime | None = None
    table: bool = False
    changes: bool = False

    @property
    def keeps_timestamps(self) -> bool:
        """Whether the rows also hold the record's timestamp: for dead letters, or as an event time."""
        by_worker = self.decoded_by_worker and self.event_time is not None and self.event_time.of_record
        return self.keeps_records or by_worker or self.table


@dataclass(frozen=True, kw_only=True)
class CompiledStage:
    """All that follows from a stage, its topics and the types of its rows."""

    number: int
    name: str
    num_tasks: int
    source: SourceSpec
    spec: StageSpec

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """Its tasks, in order."""
        return tuple(TaskId(self.number, partition) for partition in range(self.num_tasks))


@dataclass(frozen=True)
class CompiledJob:
    """All that follows from a job, its topics and the types of its rows."""

    application_id: str
    stages: tuple[CompiledStage, ...]

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """Of all stages, in order."""
        return tuple(task for stage in self.stages for task in stage.tasks)

    @cached_property
    def specs(self) -> Mapping[int, StageSpec]:
        """By stage, what the workers do."""
        return {stage.number: stage.spec for stage in self.stages}

    def stage(self, number: int) -> CompiledStage:
        """One of its stages."""
        return stage_of(self.application_id, {stage.number: stage for stage in self.stages}, number)
