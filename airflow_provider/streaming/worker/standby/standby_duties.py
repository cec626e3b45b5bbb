"""What a slot does for its standbys besides following: it compares their stores with their actives' and copies them."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import CertificateStatus, FailureStatus, Role, TaskState, TaskStatus
from airflow_provider.errors import StoreDivergedError
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.state.digest import DigestScan
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.standby.task_snapshots import TaskSnapshots
from airflow_provider.streaming.worker.tasks.kafka_clients import RestoreConsumer
from airflow_provider.streaming.worker.tasks.task import Task

log = logging.getLogger(__name__)


class Finding(Enum):
    """What a comparison comes to."""

    CERTIFIED = "certified"
    DIVERGED = "diverged"
    """The standby's store is moved aside and restored from the changelog."""
    ACTIVE_SUSPECT = "active_suspect"
    """Restored from the changelog it differs still: so it is no fault of the standby's host alone."""


def finding(expected: int, found: int, restored: bool) -> Finding:
    """Compare two digests of one position.

    Args:
        restored: whether that store was restored because it had differed, and has not been certified since.
    """
    if expected == found:
        return Finding.CERTIFIED
    return Finding.ACTIVE_SUSPECT if restored else Finding.DIVERGED


@dataclass(frozen=True)
class _Check:
    """A comparison under way: what is expected at which position, of the store as a scan reads it; for a command."""

    position: int
    expected: int
    scan: DigestScan
    asked_by: str | None


class Certification:
    """The checks of one task's standby store. It outlives the store: what was found decides about its successor.

    At the end of the changelog a store holds exactly what the last commit record stands for, whatever was compacted
    away before; so that is where it is compared. The scan reads a RocksDB snapshot beside the following. The active
    is never touched.
    """

    def __init__(self) -> None:
        self._check: _Check | None = None
        self._due = 0.0
        self._again = False
        self._answered: str | None = None
        self._restored = False
        self._suspicion: str | None = None
        self._certified: tuple[int, int] | None = None
        self._divergences = 0

    @property
    def checking(self) -> bool:
        """Whether a comparison is under way."""
        return self._check is not None

    @property
    def diverged(self) -> bool:
        """Whether a store of this task was found to differ, and none was certified since."""
        return self._restored

    @property
    def certified(self) -> bool:
        """Whether the store as it is now was found to hold what its active's did."""
        return self._certified is not None

    def tick(self, task: Task, interval_s: float | None, may_begin: bool, asked_by: str | None = None) -> None:
        """Finish a comparison that is done, begin one that is due.

        Args:
            interval_s: between two comparisons; None for none but those that are asked for.
            asked_by: id of the command that asks for one now, due or not; each asks for one. None for none.

        Raises:
            StoreDivergedError: its store differs: it has to be moved aside and restored.
            StoreCorruptedError: its store cannot be read.
        """
        if self._check is not None:
            if self._check.scan.done:
                check, self._check = self._check, None
                self._judge(task, check)
            return
        digest, position = task.digest, task.replica.position
        asked = asked_by if asked_by != self._answered else None
        due = asked is not None or self._again or (interval_s is not None and time.monotonic() >= self._due)
        if not may_begin or not task.replica.reached_end or not due:
            return
        if digest is not None and position is not None:
            self._due = time.monotonic() + (interval_s or 0.0)
            self._again = False
            self._check = _Check(position.offset, int(digest, 16), task.replica.scan(), asked)

    def _judge(self, task: Task, check: _Check) -> None:
        found = check.scan.result()
        if found is None:  # the store was opened again since
            self._again = True
            return
        self._answered = check.asked_by or self._answered
        what = finding(check.expected, found, self._restored)
        if what is Finding.CERTIFIED:
            self._certified = (check.position, now_ms())
            self._restored = False
            self._suspicion = None
            return
        self._divergences += 1
        self._certified = None
        differs = (
            f"At position {check.position} of {task.replica.changelog}[{task.partition}] the store of the standby on "
            f"{task.settings.instance!r} has the digest {found:016x}, its active had {check.expected:016x}"
        )
        if what is Finding.ACTIVE_SUSPECT:
            self._suspicion = (
                f"{differs}, and this store was just restored from the changelog: either the active's store is "
                "damaged, or the changelog does not hold all that was committed. Find out which before you promote "
                "this standby: see 'A store diverged' in the runbook."
            )
            log.error("%s", self._suspicion)
            return
        self._restored = self._again = True
        log.error("%s", differs)
        raise StoreDivergedError(
            f"{differs}: it is moved aside and restored from the changelog. Look at that host's disk and memory."
        )

    def give_up(self) -> None:
        """End a comparison that is under way, without a finding."""
        if self._check is not None:
            self._check.scan.cancel()
        self._check = None

    def leave(self) -> bool:
        """The store is closed, or becomes the active's: a comparison under way is given up.

        Returns:
            Whether the digest in the commit records was found wrong.
        """
        self.give_up()
        suspected = self._suspicion is not None
        self._certified = None
        self._suspicion = None
        self._due = 0.0  # what comes back as a standby's is compared at once
        return suspected

    def with_certification_status(self, status: TaskStatus) -> TaskStatus:
        """A standby's status with what is known."""
        position, at_ms = self._certified or (None, None)
        certificate = CertificateStatus(position, at_ms, self._divergences, self._answered)
        status = dataclasses.replace(status, certificate=certificate)
        if self._suspicion is None or status.error is not None:
            return status
        return dataclasses.replace(status, failure=FailureStatus(StoreDivergedError.__name__, self._suspicion))


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
