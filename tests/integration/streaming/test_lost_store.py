"""An active whose store is lost lets its warm standby take over, and restores in place only where there is none."""

from __future__ import annotations

import dataclasses
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from tests.integration.streaming.application import Application, InstancePlans, active, json_state, standby, the_only
from tests.integration.streaming.committed import newest_by_key, records_of
from tests.integration.streaming.orders import batches_of, random_orders, record_batches

# Enough keys for several blocks.
FIRST, SECOND = batches_of(random_orders(5, 8000, customers=3000), 4000)


def backed(plan: TaskPlan) -> TaskPlan:
    return dataclasses.replace(plan, has_standbys=True)


@pytest.fixture
def plans(bootstrap_servers: str, application_id: str, tmp_path: Path) -> InstancePlans:
    """An instance that processed the first orders and was closed."""
    application = Application.create(bootstrap_servers, application_id, tmp_path)
    made = application.instance("i1")
    with closing(Slot(made.plan(active(0)))) as slot:
        slot.call(made.plan(active(0)), (), False)
        slot.call(made.plan(active(0)), record_batches((0, FIRST)), False)
    return made


def spoil_manifest(plans: InstancePlans) -> None:
    (manifest,) = plans.directory.database(TaskId(0, 0)).glob("MANIFEST-*")
    manifest.write_bytes(b"\0" * manifest.stat().st_size)


def spoil_data(plans: InstancePlans) -> None:
    """Found only when a key is read: the first block, while the position, the index and the footer stay as they are."""
    # The position has a small file of its own, as every column family.
    path = max(plans.directory.database(TaskId(0, 0)).glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(path.read_bytes())
    data[:2000] = bytes(b ^ 0xFF for b in data[:2000])
    path.write_bytes(data)


def changelog(plans: InstancePlans) -> dict[bytes, bytes]:
    spec = plans.spec
    return newest_by_key(
        records_of(plans.settings.connection.bootstrap_servers, f"{spec.application_id}-{spec.store.name}-changelog")
    )


def test_corrupted_store_of_a_backed_active_fails_its_task_until_the_next_generation(plans: InstancePlans) -> None:
    spoil_manifest(plans)
    backed_plan = plans.plan(backed(active(0)))
    with closing(Slot(backed_plan)) as slot:
        for _ in range(2):
            status = the_only(slot.call(backed_plan, (), False))
            assert (status.state, status.error_kind) == (TaskState.FAILED, "StoreCorruptedError")
        assert len(plans.quarantined) == 1

        status = the_only(slot.call(plans.plan(standby(0, 2)), (), False))
        assert (status.state, status.lag_records, status.error) == (TaskState.FOLLOWING, 0, None)
    assert plans.stored() == changelog(plans)


def test_corrupted_block_found_in_a_batch_fails_the_task_of_a_backed_active(plans: InstancePlans) -> None:
    backed_plan = plans.plan(backed(active(0)))
    spoil_data(plans)
    with closing(Slot(backed_plan)) as slot:
        slot.call(backed_plan, (), False)
        status = the_only(slot.call(backed_plan, record_batches((0, SECOND)), False))
    assert (status.state, status.error_kind) == (TaskState.FAILED, "StoreCorruptedError")
    assert len(plans.quarantined) == 1


def test_corrupted_block_of_an_active_without_standbys_is_restored_in_place(plans: InstancePlans) -> None:
    spoil_data(plans)
    plan = plans.plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        assert the_only(slot.call(plan, record_batches((0, SECOND)), False)).error_kind == "StoreCorruptedError"
        status = the_only(slot.call(plan, (), False))
        assert (status.state, status.error) == (TaskState.RUNNING, None)
        assert status.source_offset == FIRST[-1].offset + 1
        the_only(slot.call(plan, record_batches((0, SECOND)), False))
    assert plans.stored() == changelog(plans)


def test_state_folder_removed_under_a_running_active_lets_its_standby_take_over(plans: InstancePlans) -> None:
    backed_plan = plans.plan(backed(active(0)))
    with closing(Slot(backed_plan)) as slot:
        assert the_only(slot.call(backed_plan, (), False)).state is TaskState.RUNNING
        before = the_only(slot.call(backed_plan, record_batches((0, SECOND)), False))
        shutil.rmtree(plans.settings.state_dir)
        status = the_only(slot.call(backed_plan, (), False))
    assert (status.state, status.error_kind) == (TaskState.FAILED, "StoreCorruptedError")
    assert "were removed" in str(status.error)
    # By that the next failover knows that the task may come back to where it failed before.
    assert status.first_commit_at_ms == before.first_commit_at_ms is not None
    assert (status.processed_records, status.source_offset) == (len(SECOND), SECOND[-1].offset + 1)


def test_state_folder_removed_under_a_running_active_without_standbys_is_restored(plans: InstancePlans) -> None:
    plan = plans.plan(active(0))
    with closing(Slot(plan)) as slot:
        assert the_only(slot.call(plan, (), False)).state is TaskState.RUNNING
        shutil.rmtree(plans.settings.state_dir)
        assert the_only(slot.call(plan, record_batches((0, SECOND)), False)).error_kind == "StoreCorruptedError"
        status = the_only(slot.call(plan, (), False))
        assert (status.state, status.error) == (TaskState.RUNNING, None)
        # Whether the rows were committed before that was noticed depends on which files RocksDB had open.
        assert status.source_offset in (FIRST[-1].offset + 1, SECOND[-1].offset + 1)
        assert the_only(slot.call(plan, record_batches((0, SECOND)), False)).source_offset == SECOND[-1].offset + 1
    stored = plans.stored()
    assert stored == changelog(plans)
    assert sum(state["count"] for state in json_state(stored).values()) == len(FIRST) + len(SECOND)


def test_standby_that_slept_is_not_promoted_with_what_it_has(
    plans: InstancePlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plans.plan(standby(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        # From here on, whatever was applied was applied too long ago: longer than deletions are kept.
        later_ms = now_ms() + plans.spec.store.delete_retention_ms
        monkeypatch.setattr("airflow_provider.streaming.worker.tasks.replica_opening.now_ms", lambda: later_ms)
        outdated = the_only(slot.call(plans.plan(active(0, 2)), (), False))
    assert outdated.error_kind == "StoreOutdatedError"
    assert outdated.state is not TaskState.RUNNING
    assert len(plans.quarantined) == 1
