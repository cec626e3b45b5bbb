"""The fields of an application's forms: prefilled, so that a run by hand is one click."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow.sdk import Param, get_current_context

from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.factory.spec import Stream


def instances_field(stream: Stream, description: str) -> Param:
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
    """What a run's form says in `instances_field`."""
    chosen: list[str] = get_current_context()["params"]["instances"]
    return chosen


def instance_field(stream: Stream, description: str) -> Param:
    """``instance``: one of the application's, or none."""
    return Param(
        None, enum=[None, *stream.instance_names], title="Instance", description=description, section="Instances"
    )


def lines_field(
    title: str, description: str, lines: Iterable[str] = (), *, section: str, pattern: str | None = None
) -> Param:
    """A text a line, or none: a browser sends null where a person has cleared it."""
    items: dict[str, Any] = {"type": "string"} if pattern is None else {"type": "string", "pattern": pattern}
    return Param(
        list(lines), type=["null", "array"], items=items, title=title, description=description, section=section
    )


def seconds_field(default: int, title: str, *, minimum: int = 10) -> Param:
    """A time limit in seconds."""
    return Param(default, type="integer", minimum=minimum, title=title, description="Seconds.", section="Limits")


def timeouts() -> dict[str, Param]:
    """How long instances may take to start, and standbys to become warm."""
    return {
        "start_timeout_s": seconds_field(int(Timeouts.start_s), "Start within"),
        "warm_timeout_s": seconds_field(3600, "Warm within"),
    }
