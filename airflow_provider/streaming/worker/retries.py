"""When tasks that failed are tried again by themselves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.error_decision import retry_pause_s
from airflow_provider.streaming.worker.plan import TaskPlan

__all__ = ["Retries"]

_WELL_S: Final = 60.0


@dataclass(frozen=True)
class _Failed:
    """A task's last failure.

    Args:
        plan: what it was to be.
        failures: how many in a row.
        retry_at: when it is tried again, monotonic seconds; infinite once it was, and where it is not.
        well_at: when it has got past that, unless it fails before.
    """

    plan: TaskPlan
    failures: int
    retry_at: float
    well_at: float


class Retries:
    """Remembers each task's failures in a row: what has worked for a while after its last try begins anew.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[TaskId, _Failed] = {}

    def note(self, plan: TaskPlan, error: Exception) -> None:
        """A task has failed.

        Args:
            plan: what it was to be.
            error: why.
        """
        known, now = self._known(plan), self._clock()
        failures = 1 if known is None or now > known.well_at else known.failures + 1
        pause_s = retry_pause_s(type(error).__name__, failures)
        retry_at = math.inf if pause_s is None else now + pause_s
        self._failed[plan.task] = _Failed(plan, failures, retry_at, retry_at + max(_WELL_S, 2 * (pause_s or 0.0)))

    def take(self, plan: TaskPlan) -> bool:
        """Whether a task that has failed is to be tried again now; true once for each failure.

        Args:
            plan: what it is to be.
        """
        known = self._known(plan)
        if known is None or self._clock() < known.retry_at:
            return False
        self._failed[plan.task] = replace(known, retry_at=math.inf)
        return True

    def _known(self, plan: TaskPlan) -> _Failed | None:
        known = self._failed.get(plan.task)
        if known is None or (known.plan.same_ownership(plan) and known.plan.replay == plan.replay):
            return known
        del self._failed[plan.task]
        return None
