"""The clock of an instance jumps by an hour, either way: nothing is restored that need not be, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider.control.records.task_state import TaskState
from airflow_provider.streaming.worker.slot import Slot
from tests.integration.streaming.application import Application, active, standby, the_only
from tests.integration.streaming.committed import newest_by_key, records_of
from tests.integration.streaming.orders import batches_of, expected_outputs, random_orders, record_batches
from tests.integration.streaming.test_ownership import sink_of

HOUR_NS = 3_600_000_000_000
ORDERS = random_orders(seed=71, number=120)
FIRST, SECOND, THIRD = batches_of(ORDERS, 40)


@pytest.fixture(params=[1, -1], ids=["ahead", "back"])
def jump(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Moves the wall clock of this process by an hour; every decision of the product asks `time.time_ns`."""
    right = time.time_ns

    def jump() -> None:
        monkeypatch.setattr(time, "time_ns", lambda: right() + request.param * HOUR_NS)

    return jump


def test_promotion_after_a_jump_stays_warm(application: Application, jump: Callable[[], None]) -> None:
    old, new = application.instance("i1"), application.instance("i2")
    with closing(Slot(old.plan(active(0)))) as owner, closing(Slot(new.plan(standby(0)))) as follower:
        owner.call(old.plan(active(0)), (), False)
        owner.call(old.plan(active(0)), record_batches((0, FIRST)), False)
        application.settle()
        assert the_only(follower.call(new.plan(standby(0)), (), False)).warm

        jump()
        owner.call(old.plan(active(0)), record_batches((0, SECOND)), False)
        application.settle()
        follower.call(new.plan(standby(0)), (), False)
        promoted = the_only(follower.call(new.plan(active(0, 2)), (), False))
        follower.call(new.plan(active(0, 2)), record_batches((0, THIRD)), False)

    assert (promoted.state, promoted.restore.records) == (TaskState.RUNNING, 0)
    assert new.quarantined == []
    assert sink_of(application) == expected_outputs(ORDERS)
    changelog = records_of(application.connection.bootstrap_servers, application.changelog)
    assert new.stored() == newest_by_key(changelog)


def test_restart_after_a_jump_resumes_the_store(application: Application, jump: Callable[[], None]) -> None:
    plans = application.instance("i1")
    plan = plans.plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, FIRST)), False)
    application.settle()

    jump()
    with closing(Slot(plan)) as slot:
        resumed = the_only(slot.call(plan, (), False))
        slot.call(plan, record_batches((0, SECOND)), False)
        slot.call(plan, record_batches((0, THIRD)), False)

    assert (resumed.state, resumed.source_offset) == (TaskState.RUNNING, FIRST[-1].offset + 1)
    assert plans.quarantined == []
    assert sink_of(application) == expected_outputs(ORDERS)


def test_task_whose_time_the_brokers_refuse_fails_so_that_another_host_takes_it(
    bootstrap_servers: str, application_id: str, tmp_path: Path
) -> None:
    # The other way round: brokers that refuse a record as soon as it is older than a millisecond.
    strict = {"message.timestamp.before.max.ms": "1"}
    application = Application.create(bootstrap_servers, application_id, tmp_path, changelog_config=strict)
    plan = application.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        refused = the_only(slot.call(plan, record_batches((0, FIRST)), False))

    assert (refused.state, refused.error_kind) == (TaskState.FAILED, "InstanceError")
    assert "Set this host's clock" in str(refused.error)
    assert sink_of(application) == {}
