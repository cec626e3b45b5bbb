"""The forms of an application's DAGs: prefilled, so that a run by hand is one click."""

from __future__ import annotations

from airflow.sdk import Param, get_current_context

from airflow_provider.dag_form import seconds_field, start_timeout_field, warm_timeout_field
from airflow_provider.factory.spec import Stream

__all__ = ["chosen_instances", "instance_choice", "instances_choice", "timeouts"]


def instances_choice(stream: Stream, description: str) -> Param:
    """``instances``: some of the application's, all of them at first."""
    names = stream.instance_names
    return Param(
        names,
        type="array",
        items={"type": "string", "enum": names},
        examples=names,
        minItems=1,
        title="Instances",
        description=description,
        section="Instances",
    )


def chosen_instances() -> list[str]:
    """What a run's form says in `instances_choice`."""
    chosen: list[str] = get_current_context()["params"]["instances"]
    return chosen


def instance_choice(stream: Stream, description: str) -> Param:
    """``instance``: one of the application's, or none."""
    return Param(
        None, enum=[None, *stream.instance_names], title="Instance", description=description, section="Instances"
    )


def timeouts(recovery: bool = False) -> dict[str, Param]:
    """``start_timeout_s`` and ``warm_timeout_s``, or those of a drill."""
    if recovery:
        return {
            "ready_timeout_s": seconds_field(60, "Ready within", minimum=1),
            "recovery_timeout_s": seconds_field(1800, "Recovered within"),
        }
    return {"start_timeout_s": start_timeout_field(), "warm_timeout_s": warm_timeout_field()}
