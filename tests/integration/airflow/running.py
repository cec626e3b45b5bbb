"""Runs an operator as a worker and a triggerer would, without either."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from airflow.sdk.exceptions import TaskDeferred

from airflow_provider.triggers.control import ControlTrigger


def context(run_id: str = "run-1", **more: Any) -> Any:
    return {"run_id": run_id, "ti": SimpleNamespace(map_index=-1), "triggering_asset_events": {}, **more}


def deferral(operator: Any, given: Any) -> TaskDeferred:
    """What the operator waits for."""
    try:
        result = operator.execute(given)
    except TaskDeferred as deferred:
        return deferred
    raise AssertionError(f"{operator} did not defer, it returned {result}")


def wait(deferred: TaskDeferred) -> dict[str, Any]:
    """The event of a trigger that was stored and rebuilt, as Airflow does."""
    _, arguments = deferred.trigger.serialize()

    async def first() -> dict[str, Any]:
        async for event in ControlTrigger(**arguments).run():
            payload: dict[str, Any] = event.payload
            return payload
        raise AssertionError("the trigger ended without an event")

    return asyncio.run(first())


def run(operator: Any, given: Any | None = None) -> Any:
    """To its end, through its deferral if there is one."""
    given = given or context()
    try:
        return operator.execute(given)
    except TaskDeferred as deferred:
        return getattr(operator, deferred.method_name)(given, wait(deferred))


__all__ = ["context", "deferral", "run", "wait"]
