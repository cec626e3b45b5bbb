"""The assets by which one DAG of this package starts another."""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import Asset, AssetAlias, AssetWatcher

_INCIDENTS: Final = "incidents"


def incidents(application_id: str, watcher: AssetWatcher) -> Asset:
    """The asset that gets an event for each failure of the application."""
    return _asset(application_id, _INCIDENTS, watchers=[watcher])


def incidents_name(application_id: str) -> str:
    """The name of that asset: Airflow ends it when it cleans up after the DAG that it starts."""
    return _name(application_id, _INCIDENTS)


def answers(application_id: str) -> Asset:
    """The asset that gets an event when a failover of the application answered incidents: a DAG may be scheduled on it.

    Its extra, ``answers``, is a list of `FailoverAnswer` as plain values.
    """
    return _asset(application_id, "answers")


def answers_alias(application_id: str) -> AssetAlias:
    """The outlet of the task that answers: by an alias, a run that answered nothing leaves no event."""
    return AssetAlias(f"{application_id}/answers")


def drills(application_id: str) -> Asset:
    """The asset that gets an event when a drill of the application was passed: a DAG may be scheduled on it."""
    return _asset(application_id, "drills")


def _name(application_id: str, what: str) -> str:
    return f"{application_id}/{what}"


def _asset(application_id: str, what: str, **more: Any) -> Asset:
    return Asset(name=_name(application_id, what), uri=f"stateful-streams://{application_id}/{what}", **more)
