"""Publishing by an act that can be done again, and clearing what has outlived its use behind it."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from airflow_provider.common.clock import now_ms
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.retention import outdated
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.topics.writer import ControlWriter
from airflow_provider.errors import FencedError
from airflow_provider.kafka.connection import KafkaConnection

T = TypeVar("T")

_TRIES: Final = 10
_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
"""All of them take half a minute: longer than a command needs that another waits for on a busy host."""


class _WouldPublishError(Exception):
    """There is something to publish."""


class _Onlooker(AssignmentPublisher):
    """Has read as a publisher has, fences nobody, and ends what publishes."""

    def __init__(self, view: ControlView) -> None:
        self.view = view

    def publish(self, *_: object) -> None:
        """Ends the act.

        Raises:
            _WouldPublishError: always.
        """
        raise _WouldPublishError


def publish_by(
    connection: KafkaConnection, application_id: str, act: Callable[[AssignmentPublisher], T], *, look: bool = True
) -> T:
    """Let `act` read and publish; when another publisher takes over, let it read and publish again.

    A publisher fences every other by being there, one that has nothing to publish too. So `act` is first tried on what
    anybody can read, and where it publishes nothing no other is disturbed: commands in a loop starve no repair.

    What has outlived its use in the control topics (`airflow_provider.control.topics.retention`) is removed after that;
    what is not removed in time is left for the next time.

    Args:
        act: called with a publisher that has just read the newest state.
        look: whether it is tried first. False where it nearly always publishes, and where that would cost time.

    Raises:
        FencedError: others took over again and again.
        TopicMissingError: the application's topics do not exist.
        BrokerUnreachableError: no broker answered.
    """
    if look:
        with ControlReader(connection, application_id) as reader:
            view = reader.read_to_end()
        with suppress(_WouldPublishError):
            return act(_Onlooker(view))

    def publish() -> T:
        with AssignmentPublisher(connection, application_id) as publisher:
            result = act(publisher)
        if gone := outdated(publisher.view, now_ms()):
            with ControlWriter(connection, application_id) as writer:
                for value in gone:
                    writer.forget(value)
        return result

    return retry_fenced(publish, application_id)


log = logging.getLogger(__name__)


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
