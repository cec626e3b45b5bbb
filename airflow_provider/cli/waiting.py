"""Waiting at a terminal: what is waited for goes to standard error, so that standard output is the result alone."""

from __future__ import annotations

import sys
from typing import Any

from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.waiting.condition_wait import wait_for
from airflow_provider.control.waiting.conditions import Condition, Outcome
from airflow_provider.errors import DeadlineError, InstanceError
from airflow_provider.kafka.connection import KafkaConnection


def await_condition(
    cluster: KafkaConnection,
    application_id: str,
    condition: Condition,
    timeout_s: float,
    timeouts: Timeouts | None = None,
    advice: str = "Correct the cause, then run the command again.",
) -> dict[str, Any]:
    """Wait until a condition is met.

    Args:
        condition: what is waited for.
        timeout_s: how long to wait at most.
        timeouts: by which instances are found to live; None for the defaults.
        advice: what a person does where it cannot be met any more.

    Returns:
        The condition's result, as plain values.

    Raises:
        InstanceError: it cannot be met any more.
        DeadlineError: the time was over; says what was last seen.
    """
    found = wait_for(cluster, application_id, condition, timeout_s=timeout_s, timeouts=timeouts, say=say_waiting)
    match found.outcome:
        case Outcome.MET:
            return found.result
        case Outcome.FAILED:
            raise InstanceError(f"Waited for {found.waited_for}, which cannot happen any more: {found.seen}. {advice}")
        case Outcome.WAITING:
            raise DeadlineError(
                f"Waited {found.waited_s:g} s for {found.waited_for}. Last seen: {found.seen}. Look at the instances' "
                "logs, or allow more time."
            )


def say(line: str) -> None:
    """Tell a person beside the result.

    Args:
        line: what is done.
    """
    print(line, file=sys.stderr, flush=True)


def say_waiting(seen: str) -> None:
    """Tell a person what is the case while something is waited for.

    Args:
        seen: in one line.
    """
    say(f"waiting: {seen}")
