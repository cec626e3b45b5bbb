"""A disk that is full or read-only: its instance's task goes to the standby, and comes back once there is room."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.state.store import Store
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from tests.integration.streaming.application import Application, InstancePlans, active, standby, the_only
from tests.integration.streaming.committed import newest_by_key, records_of
from tests.integration.streaming.orders import batches_of, expected_outputs, random_orders, record_batches
from tests.integration.streaming.test_ownership import sink_of

ORDERS = random_orders(seed=17, number=1200, customers=400)
FIRST, SECOND, THIRD = batches_of(ORDERS, 400)
DISK = "disk"


def backed(plan: TaskPlan) -> TaskPlan:
    return dataclasses.replace(plan, has_standbys=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own, for one instance's stores."""
    folder = tmp_path / DISK
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Take all the room that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    return ballast


def remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)


def changelog_of(application: Application) -> dict[bytes, bytes]:
    return newest_by_key(records_of(application.connection.bootstrap_servers, application.changelog))


def test_task_of_a_full_disk_goes_to_its_standby_and_follows_once_there_is_room(
    application: Application, disk: Path
) -> None:
    cramped, roomy = application.instance("i1", state_dir=DISK), application.instance("i2")
    plan = cramped.plan(backed(active(0)))
    with closing(Slot(plan)) as old, closing(Slot(roomy.plan(standby(0)))) as new:
        old.call(plan, (), False)
        old.call(plan, record_batches((0, FIRST)), False)
        new.call(roomy.plan(standby(0)), (), False)
        ballast = fill(disk)

        full = the_only(old.call(plan, record_batches((0, SECOND)), False))
        assert (full.state, full.error_kind) == (TaskState.FAILED, "StateError")
        assert "No space left on device" in str(full.error)
        assert "check the disk's space" in str(full.error)

        # What was committed before the disk was found to be full is the standby's to restore.
        promoted = the_only(new.call(roomy.plan(active(0, 2)), (), False))
        assert (promoted.state, promoted.source_offset) == (TaskState.RUNNING, SECOND[-1].offset + 1)
        for rows in (SECOND, THIRD):
            new.call(roomy.plan(active(0, 2)), record_batches((0, rows)), False)

        follows = the_only(old.call(cramped.plan(standby(0, 2)), (), False))
        assert (follows.state, follows.error_kind, follows.warm) == (TaskState.FOLLOWING, "StateError", False)
        ballast.unlink()
        application.settle()
        follows = the_only(old.call(cramped.plan(standby(0, 2)), (), False))
        assert (follows.state, follows.lag_records, follows.error) == (TaskState.FOLLOWING, 0, None)

    assert sink_of(application) == expected_outputs(ORDERS)
    assert cramped.stored() == roomy.stored() == changelog_of(application)


def test_full_disk_without_a_standby_is_reported_and_the_task_goes_on_once_there_is_room(
    application: Application, disk: Path
) -> None:
    plans = application.instance("i1", state_dir=DISK)
    plan = plans.plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, FIRST)), False)
        ballast = fill(disk)
        reported: list[TaskStatus] = [the_only(slot.call(plan, record_batches((0, SECOND)), False))]
        reported.append(the_only(slot.call(plan, (), False)))
        ballast.unlink()
        again = the_only(slot.call(plan, (), False))
        for rows in (SECOND, THIRD):
            slot.call(plan, record_batches((0, rows)), False)

    assert {status.error_kind for status in reported} == {"StateError"}
    assert TaskState.RUNNING not in {status.state for status in reported}
    assert (again.state, again.source_offset, again.error) == (TaskState.RUNNING, SECOND[-1].offset + 1, None)
    assert sink_of(application) == expected_outputs(ORDERS)
    assert plans.stored() == changelog_of(application)


@pytest.mark.parametrize(
    ("kind", "state"), [(backed, TaskState.FAILED), (lambda plan: plan, TaskState.OWNING)], ids=["backed", "alone"]
)
def test_read_only_folder_is_reported_and_used_again_once_it_can_be_written(
    kind: Callable[[TaskPlan], TaskPlan], state: TaskState, application: Application, disk: Path
) -> None:
    plans = application.instance("i1", state_dir=DISK)
    plan = plans.plan(kind(active(0)))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, FIRST)), False)
    remount(disk, "ro")

    with closing(Slot(plan)) as slot:
        reported = the_only(slot.call(plan, (), False))
        assert (reported.state, reported.error_kind) == (state, "StateError")
        assert "Read-only file system" in str(reported.error)
        remount(disk, "rw")
        again = plans.plan(active(0, 2))
        running = the_only(slot.call(again, (), False))
        assert (running.state, running.source_offset) == (TaskState.RUNNING, FIRST[-1].offset + 1)


def _hold(path: Path, held: multiprocessing.synchronize.Event, enough: multiprocessing.synchronize.Event) -> None:
    store = Store(path, ["state"])
    held.set()
    enough.wait(60)
    store.close()


@pytest.fixture
def locked(application: Application) -> Iterator[InstancePlans]:
    """An instance whose store a living process holds that is none of its workers."""
    plans = application.instance("i1")
    context = multiprocessing.get_context("spawn")
    held, enough = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(plans.directory.database(TaskId(0, 0)), held, enough))
    holder.start()
    assert held.wait(30)
    yield plans
    enough.set()
    holder.join(30)


@pytest.mark.parametrize(
    ("kind", "state"), [(backed, TaskState.FAILED), (lambda plan: plan, TaskState.OWNING)], ids=["backed", "alone"]
)
def test_store_that_a_foreign_process_holds_is_reported_after_a_deadline(
    kind: Callable[[TaskPlan], TaskPlan], state: TaskState, locked: InstancePlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider.streaming.worker.task_registry._LOCK_TIMEOUT_S", 3.0)
    plan = locked.plan(kind(active(0)))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        waited_s = time.monotonic()
        status = the_only(slot.call(plan, (), False))
        waited_s = time.monotonic() - waited_s

    assert waited_s < 3.0, "the other tasks of the slot would wait with it, again and again"
    assert (status.state, status.error_kind) == (state, "StoreLockedError")
    assert "End the other process" in str(status.error)
    assert locked.quarantined == []
