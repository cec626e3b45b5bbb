from __future__ import annotations

from types import SimpleNamespace, TracebackType
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from airflow_provider.control.records.incident import Unanswered, Watcher
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import InstanceError
from airflow_provider.operators.checks import CheckDrillReadinessOperator

OPEN = Unanswered(incident="a/1/gone-1", what="instance_ended of a", reported_at_ms=1_000)


class Reader:
    """Of an application that is watched."""

    def __init__(self, view: ControlView) -> None:
        self._view = view

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing is held."""

    def read_to_end(self) -> ControlView:
        return self._view

    def listen_for_watcher(self, _: float) -> bool:
        return True


class Inactive:
    """Knows no active asset."""

    def for_asset(self, *, name: str) -> Any:
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.ASSET_NOT_FOUND, detail={"name": name}))


def check(*unanswered: Unanswered, events: Any = None, asset: str | None = None) -> Any:
    operator = CheckDrillReadinessOperator(
        task_id="check_watch", application_id="orders", failover_dag_id="orders_failover", failover_asset=asset
    )
    watcher = Watcher(
        application_id="orders", host="h", pid=1, began_at_ms=1, sent_at_ms=61_000, unanswered=tuple(unanswered)
    )
    view = ControlView("orders", watcher=watcher)
    operator.__dict__["hook"] = SimpleNamespace(reader=lambda _: Reader(view))
    ti = SimpleNamespace(get_dag=lambda dag_id: SimpleNamespace(dag_id=dag_id, is_paused=False))
    given: Any = {"ti": ti, "triggering_asset_events": events}
    return operator.execute(given)


def test_application_that_is_watched_and_has_no_failure_is_ready() -> None:
    assert check()["application_id"] == "orders"


def test_drill_is_refused_while_a_failure_that_was_reported_has_no_answer() -> None:
    with pytest.raises(InstanceError, match="instance_ended of a was reported 60 s ago, and no failover has taken"):
        check(OPEN)


def test_drill_is_refused_while_the_asset_of_the_failover_dag_is_not_active() -> None:
    with pytest.raises(InstanceError, match="asset 'orders/incidents' is not active"):
        check(events=Inactive(), asset="orders/incidents")
