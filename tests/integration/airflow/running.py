"""Runs an operator as a worker and a triggerer would, without either."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
from types import SimpleNamespace
from typing import Any

from airflow.sdk.exceptions import TaskDeferred

from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.triggers import ControlTrigger, IncidentTrigger


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
    """To its end, through its deferrals if there are any."""
    given = given or context()
    act = functools.partial(operator.execute, given)
    while True:
        try:
            return act()
        except TaskDeferred as deferred:
            act = functools.partial(getattr(operator, deferred.method_name), given, wait(deferred))


def kill(handle: dict[str, Any]) -> None:
    os.killpg(os.getpgid(handle["pid"]), signal.SIGKILL)


class UnheardTrigger(IncidentTrigger):
    """A watcher whose answers do not get through."""

    def _answer(self, *_: object) -> None:
        raise BrokerUnreachableError("no answer gets through")


def incident_of(application_id: str, within_s: float = 20.0, kind: type[IncidentTrigger] = IncidentTrigger) -> Any:
    """What the watcher of the application fires first."""

    async def first() -> dict[str, Any]:
        async for event in kind(application_id).run():
            payload: dict[str, Any] = event.payload
            return payload
        raise AssertionError("the watch ended")

    return asyncio.run(asyncio.wait_for(first(), within_s))


def caused_by(*payloads: dict[str, Any], run_id: str = "failover-1") -> Any:
    """The context of a run that these events started."""
    events = [SimpleNamespace(extra={"from_trigger": True, "payload": payload}) for payload in payloads]
    return context(run_id, triggering_asset_events={"asset": events})


__all__ = ["UnheardTrigger", "caused_by", "context", "deferral", "incident_of", "kill", "run", "wait"]
