from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from airflow_provider.operators.control import failover_dag_problem


class Events:
    """Of a run that no event started: those of an active asset are none, an inactive one is not found."""

    def __init__(self, *active: str, error: ErrorType = ErrorType.ASSET_NOT_FOUND) -> None:
        self._active, self._error = active, error

    def for_asset(self, *, name: str) -> Any:
        if name not in self._active:
            raise AirflowRuntimeError(ErrorResponse(error=self._error, detail={"name": name}))
        raise KeyError(name)


def context(*, paused: bool = False, events: Events | None = None) -> Any:
    ti = SimpleNamespace(get_dag=lambda dag_id: SimpleNamespace(dag_id=dag_id, is_paused=paused))
    return {"ti": ti, "triggering_asset_events": events or Events("orders/incidents")}


def problem(given: Any, asset: str | None = "orders/incidents") -> str | None:
    return failover_dag_problem(given, "orders_failover", asset)


def test_failover_dag_that_is_unpaused_and_whose_asset_is_active_has_no_problem() -> None:
    assert problem(context()) is None


def test_paused_failover_dag_is_named_whatever_its_asset_is() -> None:
    assert problem(context(paused=True, events=Events())) == (
        "failover DAG 'orders_failover' is paused, so no failure is answered: unpause it."
    )


def test_failover_dag_whose_asset_is_inactive_answers_nothing() -> None:
    found = problem(context(events=Events()))

    assert found is not None
    assert "asset 'orders/incidents' is not active" in found
    assert "airflow dags list-import-errors" in found


def test_other_failure_to_ask_for_the_asset_is_told_as_such() -> None:
    found = problem(context(events=Events(error=ErrorType.API_SERVER_ERROR)))

    assert found is not None
    assert "could not be found out" in found


@pytest.mark.parametrize("asset", [None, ""])
def test_asset_that_is_not_named_is_not_asked_for(asset: str | None) -> None:
    assert problem(context(events=Events()), asset or None) is None
