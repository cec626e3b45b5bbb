"""An owner whose driver has not read the newest assignment yet, as after a hang, and the rightful one beside it."""

from __future__ import annotations

from contextlib import closing

import pytest

from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.streaming.worker.slot import Slot
from tests.integration.streaming.application import Application, active, standby, the_only
from tests.integration.streaming.committed import commits, records_of
from tests.integration.streaming.orders import batches_of, expected_outputs, random_orders, record_batches
from tests.integration.streaming.test_ownership import sink_of
from tests.waiting import wait_until


def test_outdated_owner_processes_nothing_and_the_rightful_one_goes_on(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider.streaming.worker.slot._FENCE_AGAIN_S", 0.1)
    orders = random_orders(seed=31, number=120)
    first, second, third = batches_of(orders, 40)
    old, new = application.instance("i1"), application.instance("i2")
    with closing(Slot(new.plan(standby(0)))) as rightful:
        with closing(Slot(old.plan(active(0)))) as owner:
            owner.call(old.plan(active(0)), (), False)
            owner.call(old.plan(active(0)), record_batches((0, first)), False)
        rightful.call(new.plan(active(0, 2)), (), False)
        rightful.call(new.plan(active(0, 2)), record_batches((0, second)), False)
        # The hung instance wakes up; its worker is a new one, its driver has not read generation 2 yet.
        with closing(Slot(old.plan(active(0)))) as outdated:
            woken = the_only(outdated.call(old.plan(active(0)), (), False))
            outdated.call(old.plan(active(0)), record_batches((0, third)), False)
            assert (woken.state, woken.error_kind) == (TaskState.CLOSED, "OvertakenError")

            fenced = the_only(rightful.call(new.plan(active(0, 2)), record_batches((0, third)), False))
            assert (fenced.state, fenced.error_kind) == (TaskState.CLOSED, "FencedError")

            def owned_again() -> TaskStatus | None:
                status = the_only(rightful.call(new.plan(active(0, 2)), (), False))
                return status if status.state is TaskState.RUNNING else None

            again = wait_until(owned_again, 30, "the rightful owner to own again")
            assert again is not None
            assert (again.error, again.source_offset) == (None, second[-1].offset + 1)
            rightful.call(new.plan(active(0, 2)), record_batches((0, third)), False)
            late = the_only(outdated.call(old.plan(active(0)), (), False))
            assert late.state is TaskState.CLOSED

    assert sink_of(application) == expected_outputs(orders)
    changelog = records_of(application.connection.bootstrap_servers, application.changelog)
    assert [c["generation"] for c in commits(changelog, 0)] == [1, 2, 2]
