"""When a wait is over: once for all tries of an Airflow task."""

from __future__ import annotations

from typing import Final

from airflow.sdk import Context

from airflow_provider.common.clock import now_ms

_KEY: Final = "stateful-streams-wait"
_LAST_LOOK_MS: Final = 5_000
"""A try that begins after the deadline still looks once whether what it waits for is the case by now."""


def deadline_ms(context: Context | None, timeout_s: float, retries: int, step: str = "") -> int:
    """The epoch ms at which a wait is over, the same for every try.

    The first try notes in the task's state when it began, and the later ones go on by that. A task that a person
    clears begins from the start.

    Args:
        context: of the try; None, or one without a task state store, counts from now.
        timeout_s: how long the wait may last.
        retries: of the task.
        step: what is waited for, where one task waits for several things in turn, each for `timeout_s`.
    """
    now = now_ms()
    store = None if context is None else context.get("task_state_store")
    began_ms = now
    if context is not None and store is not None:
        # Airflow raises max_tries by the retries when a task is cleared, so this names the try that began the series.
        first_try = max(1, context["ti"].max_tries - retries + 1)
        series = f"{first_try}/{step}"
        noted = store.get(_KEY)
        if isinstance(noted, dict) and noted.get("series") == series and isinstance(noted.get("began_ms"), int):
            began_ms = int(str(noted["began_ms"]))
        else:
            store.set(_KEY, {"series": series, "began_ms": now})
    return max(began_ms + int(timeout_s * 1000), now + _LAST_LOOK_MS)
