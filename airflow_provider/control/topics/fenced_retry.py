"""Trying again after another publisher of assignments took over."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from airflow_provider.errors import FencedError

__all__ = ["retry_fenced"]

log = logging.getLogger(__name__)

T = TypeVar("T")
_TRIES: Final = 10
_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
"""All of them take half a minute: longer than a command needs that another waits for on a busy host."""


def retry_fenced(publish: Callable[[], T], application_id: str) -> T:
    """Call `publish` until no other publisher took over while it ran, ten times at most.

    Args:
        publish: opens an `AssignmentPublisher`, which reads the newest state, and publishes what follows from it.
        application_id: the application, for messages.

    Returns:
        What `publish` returned.

    Raises:
        FencedError: others took over again and again.
    """
    for tries in range(_TRIES):
        try:
            return publish()
        except FencedError:
            log.info("Another publisher took over for %s: reading the control topics again", application_id)
            # Each takes over from the other, so both have to let the other finish, for different times.
            time.sleep(random.uniform(0.5, 1.0) * min(_PAUSE_S * 2**tries, _LONGEST_PAUSE_S))
    raise FencedError(
        f"Other publishers of {application_id!r} took over {_TRIES} times: look for DAG runs and commands that act on "
        "it, then try again."
    )
