"""A slot's restores that several Spark tasks share."""

from __future__ import annotations

import dataclasses
import functools
import logging
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider.changelog.sst_range import SstRange
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import RestorePhase, TaskState, TaskStatus
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.driver.shared_restore import SharedRestore
from airflow_provider.streaming.driver.worker_pool import worker_pool
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.plan import TaskPlan
from airflow_provider.streaming.worker.range_calls import RANGE_SCHEMA, decode_range, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SharedRestores"]

log = logging.getLogger(__name__)


class SharedRestores:
    """Begins them where a store is far behind, hands what is written to the slot, and gives up what does not work.

    Nothing here stops a task: what is given up, the slot reads alone. Only with a local master, whose workers share
    the store's disk.

    Args:
        spark: the session.
        stages: of the job, by number.
        settings: of the instance.
    """

    def __init__(self, spark: SparkSession, stages: Mapping[int, StageSpec], settings: InstanceSettings) -> None:
        # Only here, where the cores are, is it known how many share it.
        self._tasks = stages[min(stages)].restore.tasks(spark.sparkContext.defaultParallelism)
        self._spark = spark
        self._stages = {
            number: dataclasses.replace(spec, restore=dataclasses.replace(spec.restore, parallelism=self._tasks))
            for number, spec in stages.items()
        }
        self._settings = settings
        self._directory = StateDirectory(Path(settings.state_dir), settings.application_id)
        self._local = (spark.sparkContext.master or "").startswith("local")
        self._restores: dict[TaskId, SharedRestore] = {}
        self._given_up: set[TaskId] = set()

    def with_ranges(self, task: TaskPlan) -> TaskPlan:
        """The plan of a task, with the ranges that its store can take over."""
        restore = self._restores.get(task.task)
        if restore is None:
            return task
        try:
            return dataclasses.replace(task, ranges=restore.ready())
        except Exception as error:  # whatever it is, the slot reads alone
            self._give_up(task.task, error)
            return task

    def update(self, statuses: Iterable[TaskStatus]) -> None:
        """Note how far the stores are; begin restores, go on with them, end them."""
        for status in statuses:
            restore = self._restores.get(status.task)
            if restore is None:
                self._consider(status)
                continue
            try:
                restore.advance(status.position or 0)
            except Exception as error:
                self._give_up(status.task, error)
                continue
            if restore.done or status.state not in (TaskState.RESTORING, TaskState.FOLLOWING):
                self._end(status.task)

    def keep_only(self, tasks: Iterable[TaskId]) -> None:
        """End the restores of other tasks."""
        for task in set(self._restores) - set(tasks):
            self._end(task)

    def _consider(self, status: TaskStatus) -> None:
        lag = status.lag_records
        if status.restore.phase is None:
            self._given_up.discard(status.task)
        wanted = (
            self._local
            and self._tasks > 1
            and status.restore.phase is RestorePhase.CHANGELOG
            and status.state in (TaskState.RESTORING, TaskState.FOLLOWING)
            and status.error is None
            and status.task not in self._given_up
        )
        if not wanted or lag is None:
            return
        settings = self._stages[status.task.stage].restore
        if lag < settings.parallel_from_records:
            return
        begin = status.position or 0
        folder = self._folder(status.task)
        shutil.rmtree(folder, ignore_errors=True)
        log.info("task %s restores by ranges, %d at a time, from %d", status.task, self._tasks, begin)
        self._restores[status.task] = SharedRestore(
            begin,
            begin + lag,
            settings.range_records,
            self._tasks,
            functools.partial(self._write, status.task, folder),
        )

    def _write(self, task: TaskId, folder: Path, begin: int, end: int) -> SstRange:
        """In a thread: one Spark job of one task, short enough that micro-batches find their turn between two."""
        with worker_pool(self._spark, f"{self._settings.instance}-ranges"):
            function = functools.partial(write, self._settings, self._stages[task.stage], task, begin, end, str(folder))
            rows = self._spark.range(0, 1, 1, 1).mapInArrow(function, RANGE_SCHEMA)
        (row,) = rows.collect()
        return decode_range(bytes(row.range))

    def _give_up(self, task: TaskId, error: Exception) -> None:
        first = str(error).strip().splitlines()[:1]
        log.warning("task %s restores alone: its ranges failed: %s: %s", task, type(error).__name__, *first)
        self._given_up.add(task)
        self._end(task)

    def _end(self, task: TaskId) -> None:
        self._restores.pop(task).close()
        shutil.rmtree(self._folder(task), ignore_errors=True)

    def _folder(self, task: TaskId) -> Path:
        return self._directory.ranges(task, self._stages[task.stage].store.name)
