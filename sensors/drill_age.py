"""Waits until a drill was passed lately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.bases.arguments import parse_optional, parse_seconds
from airflow_provider.control.waiting.conditions import Condition, DrillPassedWithin
from airflow_provider.sensors.control import ControlSensor


class DrillAgeSensor(ControlSensor):
    """Waits until the last drill that was passed is young enough, by the application's history, read every 20 s.

    Args:
        max_age_s: how old it may be, in seconds.
        kind: only drills of this kind, such as ``"crash"``; None for any.
        kwargs: see `ControlSensor`.

    Returns:
        ``id``, ``cause`` and ``passed_at_ms`` of that drill.

    Raises:
        DeadlineError: it took too long; says how old the last one is, and how later ones ended.
        TopicMissingError: the application has no history.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "max_age_s", "kind")

    def __init__(self, *, application_id: str, max_age_s: float | str, kind: str | None = None, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.max_age_s = max_age_s
        self.kind = kind

    def condition(self) -> Condition:
        """What to wait for."""
        return DrillPassedWithin(max_age_s=parse_seconds("max_age_s", self.max_age_s), cause=parse_optional(self.kind))
