"""Waits until the disks of instances have room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.bases.arguments import parse_if_given, parse_names, parse_whole
from airflow_provider.control.waiting.conditions import Condition, DiskSpaceFree
from airflow_provider.sensors.control import ControlSensor


class DiskSpaceSensor(ControlSensor):
    """Waits until each instance has so much disk left where it keeps its stores.

    Args:
        min_free_bytes: how much each must have left.
        instances: which; None for all that are assigned.
        kwargs: see `ControlSensor`.

    Returns:
        ``free_bytes`` by instance.

    Raises:
        DeadlineError: it took too long; says which instance has how much.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "min_free_bytes", "instances")

    def __init__(
        self,
        *,
        application_id: str,
        min_free_bytes: int | str,
        instances: str | Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.min_free_bytes = min_free_bytes
        self.instances = instances

    def condition(self) -> Condition:
        """What to wait for."""
        return DiskSpaceFree(
            min_free_bytes=parse_whole("min_free_bytes", self.min_free_bytes),
            instances=parse_if_given(parse_names, "instances", self.instances),
        )
