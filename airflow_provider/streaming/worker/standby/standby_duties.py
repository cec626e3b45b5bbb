"""What a slot does for its standbys besides following: it compares their stores and copies them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import Role, TaskState, TaskStatus
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.standby.certification import Certification
from airflow_provider.streaming.worker.standby.task_snapshots import TaskSnapshots
from airflow_provider.streaming.worker.tasks.kafka_clients import RestoreConsumer
from airflow_provider.streaming.worker.tasks.task import Task

Isolating = Callable[[TaskId], AbstractContextManager[None]]


class StandbyDuties:
    """Certification and snapshots of a slot's tasks.

    It outlives the stores: what was found out about one decides about its successor.
    """

    def __init__(self, settings: InstanceSettings, stages: Mapping[int, StageSpec]) -> None:
        self._settings, self._stages = settings, stages
        self._certifications = defaultdict[TaskId, Certification](Certification)
        self._snapshots: dict[TaskId, TaskSnapshots] = {}

    def awaits_snapshot(self, task_id: TaskId, path: Path, reader: RestoreConsumer, replay: bool) -> bool:
        """Whether a store has to wait for a snapshot, which is then being fetched.

        Args:
            replay: whether the store is to be restored afresh. That, or a store that differed from its active's, is
                restored from the changelog alone.

        Raises:
            StatefulStreamsError: the changelog's bounds are not known.
        """
        stage = self._stages[task_id.stage]
        if stage.snapshots is None:
            return False
        snapshots = self._snapshots_of(task_id)
        if replay or self._certifications[task_id].diverged:
            snapshots.not_used("a replay was asked for" if replay else "the store differed from its active's")
            return False
        return snapshots.restoring(stage, path, reader)

    def wait(self, timeout_s: float) -> None:
        """Wait for the stores that are being fetched, where there is nothing else to do."""
        deadline = time.monotonic() + timeout_s
        for snapshots in self._snapshots.values():
            snapshots.wait(max(0.0, deadline - time.monotonic()))

    def tick(self, tasks: Sequence[Task], isolating: Isolating) -> None:
        """Finish what is done, begin what is due."""
        self._certify(tasks, isolating)
        self._take_snapshots(tasks, isolating)

    def end(self, task_id: TaskId) -> bool:
        """The store is closed, or becomes the active's: a comparison under way is given up.

        Returns:
            Whether the digest in the commit records was found wrong.
        """
        return self._certifications[task_id].leave()

    def with_status(self, status: TaskStatus) -> TaskStatus:
        """A task's status with its certificate and its snapshot."""
        if status.role is Role.STANDBY:
            status = self._certifications[status.task].with_certification_status(status)
        if self._stages[status.task.stage].snapshots is not None:
            status = self._snapshots_of(status.task).with_snapshot_status(status)
        return status

    def _certify(self, tasks: Sequence[Task], isolating: Isolating) -> None:
        """Compare the standbys' stores with their actives', one at a time."""
        following = {task.id for task in tasks if task.state is TaskState.FOLLOWING}
        for task_id, certification in self._certifications.items():
            if certification.checking and task_id not in following:
                certification.give_up()  # it failed meanwhile: the others' turn
        for task in tasks:
            checking = any(certification.checking for certification in self._certifications.values())
            if task.state is TaskState.FOLLOWING:
                with isolating(task.id):
                    self._certifications[task.id].tick(
                        task, self._stages[task.id.stage].certify_interval_s, not checking, task.plan.certify
                    )

    def _take_snapshots(self, tasks: Sequence[Task], isolating: Isolating) -> None:
        """Copy the standbys' stores elsewhere: those that were certified, or whose active's digest is not known."""
        for task in [task for task in tasks if task.state is TaskState.FOLLOWING]:
            if (settings := self._stages[task.id.stage].snapshots) is None:
                continue
            with isolating(task.id):
                certification = self._certifications[task.id]
                checked = self._stages[task.id.stage].certify_interval_s is not None and task.digest is not None
                trustworthy = certification.certified if checked else not certification.diverged
                self._snapshots_of(task.id).tick(task, settings, trustworthy, task.plan.snapshot)

    def _snapshots_of(self, task_id: TaskId) -> TaskSnapshots:
        if task_id not in self._snapshots:
            self._snapshots[task_id] = TaskSnapshots(self._settings.connection, self._settings.instance, task_id)
        return self._snapshots[task_id]
