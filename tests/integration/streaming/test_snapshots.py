"""An empty store is restored from a standby's snapshot and the changelog's tail, or from the changelog alone."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import changelog_spec
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.streaming.operations.process import Process
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from tests.integration.streaming.application import Application, InstancePlans, active, standby, the_only, with_store
from tests.integration.streaming.committed import ends_of, newest_by_key, records_of
from tests.integration.streaming.orders import Order, forget_on_zero, record_batches
from tests.waiting import wait_until

FIRST = [Order(n, f"c{n}", n + 1) for n in range(40)]
# Half of the customers are forgotten, one is new.
SECOND = [Order(100 + n, f"c{n}", 0) for n in range(0, 40, 2)] + [Order(200, "late", 7)]


@dataclass
class Running:
    """An active and a standby that takes snapshots."""

    application: Application
    stack: ExitStack
    active: Slot
    standby: Slot

    def process(self, orders: list[Order]) -> None:
        self.active.call(self.application.instance("i1").plan(active(0)), record_batches((0, orders)), False)
        self.application.settle()

    def follow(self) -> TaskStatus:
        return the_only(self.standby.call(self.application.instance("i2").plan(standby(0), budget_s=0.0), (), False))

    def snapshot(self) -> TaskStatus:
        def at_the_end() -> TaskStatus | None:
            status = self.follow()
            done = status.snapshot.position is not None and status.snapshot.position == status.position
            return status if done and status.lag_records == 0 and status.position == self.end else None

        status = wait_until(at_the_end, 30, "a snapshot at the end")
        assert status is not None
        return status

    @property
    def end(self) -> int:
        return ends_of(self.application.connection.bootstrap_servers, self.application.changelog)[0]

    def truth(self) -> dict[bytes, bytes]:
        return newest_by_key(records_of(self.application.connection.bootstrap_servers, self.application.changelog))


@pytest.fixture
def running(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Running]:
    made = Application.create(
        bootstrap_servers, application_id, tmp_path, operation=Process(forget_on_zero, ("amount",))
    )
    # A replay is assumed to be so slow that a snapshot is always worth it.
    settings = SnapshotSettings(f"file://{tmp_path}/snapshots", interval_s=0.05, keep=2, replay_records_per_s=1)
    application = dataclasses.replace(
        made, spec=dataclasses.replace(made.spec, snapshots=settings, certify_interval_s=0.05)
    )
    with ExitStack() as stack:
        slots = []
        for name, plan in (("i1", active(0)), ("i2", standby(0))):
            plans = application.instance(name).plan(plan)
            slots.append(stack.enter_context(closing(Slot(plans))))
            slots[-1].call(plans, (), False)
        yield Running(application, stack, *slots)


def restore(plans: InstancePlans, plan: TaskPlan) -> TaskStatus:
    with closing(Slot(plans.plan(plan))) as slot:

        def ready() -> TaskStatus | None:
            status = the_only(slot.call(plans.plan(plan), (), False))
            return status if status.state is TaskState.RUNNING or status.lag_records == 0 else None

        status = wait_until(ready, 30, "a restored store")
    assert status is not None
    return status


@pytest.mark.parametrize("task", [standby(0), active(0, 2)], ids=["standby", "active"])
def test_new_instance_takes_the_snapshot_and_the_tail_and_deleted_keys_stay_deleted(
    task: TaskPlan, running: Running
) -> None:
    running.process(FIRST)
    taken = running.snapshot()
    running.standby.close()
    running.process(SECOND)

    plans = running.application.instance("i3")
    status = restore(plans, task)

    assert status.restore.source == f"the snapshot of i2 at {taken.snapshot.position}"
    assert status.restore.records == len(SECOND) + 1
    stored = plans.stored()
    assert stored == running.truth()
    assert len(stored) == 21


def test_snapshot_that_a_command_asks_for_does_not_wait_for_its_interval(running: Running) -> None:
    spec = running.application.spec
    assert spec.snapshots is not None
    rare = dataclasses.replace(spec, snapshots=dataclasses.replace(spec.snapshots, interval_s=3600.0))
    plans = dataclasses.replace(running.application, spec=rare).instance("i3")
    asked = dataclasses.replace(standby(0), snapshot="c1")
    running.process(FIRST)
    with closing(Slot(plans.plan(standby(0)))) as slot:

        def taken(plan: TaskPlan, position: int) -> TaskStatus | None:
            status = the_only(slot.call(plans.plan(plan, budget_s=0.0), (), False))
            return status if status.snapshot.position == position else None

        first = running.end
        wait_until(lambda: taken(standby(0), first), 30, "the first snapshot")
        running.process(SECOND)
        wait_until(lambda: taken(asked, running.end), 30, "the snapshot that was asked for")

    assert running.end > first


def test_lost_disk_is_restored_from_the_own_snapshot(running: Running) -> None:
    running.process(FIRST)
    running.snapshot()
    running.standby.close()
    plans = running.application.instance("i2")
    shutil.rmtree(plans.settings.state_dir)

    status = restore(plans, standby(0))

    assert str(status.restore.source).startswith("the snapshot of i2 at")
    assert plans.stored() == running.truth()


def damage(running: Running) -> None:
    for path in (running.application.folder / "snapshots").rglob("files/*"):
        path.write_bytes(b"\0" * path.stat().st_size)


def recreate_changelog(running: Running) -> None:
    """With as many records in it as before."""
    running.active.close()
    application = running.application
    admin = AdminClient({"bootstrap.servers": application.connection.bootstrap_servers})
    admin.delete_topics([application.changelog])[application.changelog].result(30)
    topics = TopicAdmin(application.connection)
    wait_until(lambda: topics.describe(application.changelog) is None, 30, "the changelog to be gone")
    topics.ensure([changelog_spec(application.spec.application_id, "state", 1)])
    running.active = running.stack.enter_context(closing(Slot(application.instance("i1").plan(active(0)))))
    running.active.call(application.instance("i1").plan(active(0)), (), False)
    running.process([dataclasses.replace(order, amount=5) for order in FIRST])
    running.process([dataclasses.replace(order, offset=order.offset + 300, amount=6) for order in FIRST])


@pytest.mark.parametrize(
    ("spoil", "delete_retention_ms", "why"),
    [
        pytest.param(damage, 24 * 3_600_000, "damaged", id="damaged-file"),
        pytest.param(recreate_changelog, 24 * 3_600_000, "created again", id="changelog-recreated"),
        pytest.param(lambda _: None, 1, "delete.retention.ms", id="older-than-deletions-are-kept"),
    ],
)
def test_snapshot_that_is_no_good_is_skipped_for_the_changelog(
    spoil: Callable[[Running], None], delete_retention_ms: int, why: str, running: Running
) -> None:
    running.process(FIRST)
    running.snapshot()
    running.standby.close()
    spoil(running)

    plans = running.application.instance("i3")
    plans = dataclasses.replace(plans, spec=with_store(plans.spec, delete_retention_ms=delete_retention_ms))
    status = restore(plans, standby(0))

    assert str(status.restore.source).startswith("the changelog (")
    assert why in str(status.restore.source)
    assert plans.stored() == running.truth()


def test_replay_that_was_asked_for_reads_the_changelog_alone(running: Running) -> None:
    running.process(FIRST)
    running.snapshot()

    status = restore(running.application.instance("i3"), standby(0, replay="r1"))

    assert status.restore.source == "the changelog (a replay was asked for)"
    assert status.restore.records == len(FIRST) + 1


def test_snapshots_that_cannot_be_sent_are_reported_and_stop_nothing(running: Running) -> None:
    (running.application.folder / "snapshots").write_text("a file where the folder should be")
    running.process(FIRST)

    status = wait_until(lambda: s if (s := running.follow()).snapshot.error else None, 30, "the trouble")

    assert status is not None
    assert "SnapshotError" in str(status.snapshot.error)
    assert (status.state, status.lag_records, status.error) == (TaskState.FOLLOWING, 0, None)
