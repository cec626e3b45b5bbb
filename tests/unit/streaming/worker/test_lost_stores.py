from __future__ import annotations

import pytest

from airflow_provider.errors import StoreCorruptedError
from airflow_provider.streaming.worker.lost_stores import LostStores
from airflow_provider.streaming.worker.plan import TaskPlan
from tests.unit.streaming.worker.bench import active, standby

ERROR = StoreCorruptedError("bad")


@pytest.mark.parametrize(
    ("plan", "later", "reason"),
    [
        pytest.param(active(0, has_standbys=True), active(0, has_standbys=True), ERROR, id="a-standby-is-to-take-over"),
        pytest.param(active(0), active(0, has_standbys=True), None, id="there-was-no-standby"),
        pytest.param(active(0, has_standbys=True), active(0), None, id="the-standby-is-gone"),
        pytest.param(active(0, has_standbys=True), active(0, 2, has_standbys=True), None, id="newer-generation"),
        pytest.param(active(0, has_standbys=True), active(1, has_standbys=True), None, id="another-task"),
        pytest.param(standby(0, has_standbys=True), standby(0, has_standbys=True), None, id="a-standby's"),
    ],
)
def test_owner_without_a_store_waits_while_a_standby_is_to_take_over(
    plan: TaskPlan, later: TaskPlan, reason: Exception | None
) -> None:
    lost = LostStores()

    lost.note(plan, ERROR)

    assert lost.reason(later) is reason


def test_newer_generation_forgets_the_loss_for_good() -> None:
    lost, plan = LostStores(), active(0, has_standbys=True)
    lost.note(plan, ERROR)

    assert lost.reason(active(0, 2, has_standbys=True)) is None

    assert lost.reason(plan) is None
