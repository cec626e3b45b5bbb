"""When each drill of the run begins: one after the other, by cron schedules of Airflow's."""

from __future__ import annotations

import math
from typing import Final

from airflow_provider.control.records.drill_fault import DrillKind

__all__ = ["KINDS", "schedules"]

KINDS: Final = (
    DrillKind.CRASH,
    DrillKind.SHADOW_RESTORE,
    DrillKind.HANG,
    DrillKind.STANDBY_LOST,
    DrillKind.STORE_LOST,
    DrillKind.CRASH,
    DrillKind.STORE_CORRUPTED,
    DrillKind.HANG,
    DrillKind.ACTIVE_AND_STANDBY_LOST,
    DrillKind.CRASH,
)
"""The ten of the run, in their order: every kind, and those by which an instance is lost again."""

_NOTICE_S: Final = 100.0
"""How long Airflow may take to read the schedules before the first of them is due."""


def schedules(now_s: float, minutes: int) -> dict[str, str]:
    """By kind, its cron schedule.

    Args:
        now_s: the time, epoch seconds.
        minutes: between the beginnings of two.
    """
    first = math.ceil((now_s + _NOTICE_S) / 60)
    found: dict[str, list[str]] = {}
    for number, kind in enumerate(KINDS):
        found.setdefault(kind.value, []).append(str((first + number * minutes) % 60))
    return {kind: f"{','.join(at)} * * * *" for kind, at in found.items()}
