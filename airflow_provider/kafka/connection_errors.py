"""Why the connections of a Kafka client fail, said in few words instead of librdkafka's many lines."""

from __future__ import annotations

import logging
import re
import time
from typing import Final

from confluent_kafka import KafkaError

__all__ = ["ConnectionErrors"]

log = logging.getLogger(__name__)

_AGAIN_S: Final = 60.0
_STATE: Final = re.compile(r" \(after \d+ms in state .*$")


class ConnectionErrors:
    """An ``error_cb`` of a client: keeps the newest reason, and logs each reason once a minute.

    A client calls it while it is polled, from the thread that polls.

    Args:
        logs: whether to log; of a process's many clients one is enough.
    """

    def __init__(self, logs: bool = True) -> None:
        self._logs = logs
        self._logged: dict[str, float] = {}
        self._last = ""

    def __call__(self, error: KafkaError) -> None:
        """Take one of the client's errors."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # says less than what came before it
            return
        self._last = reason = _STATE.sub("", error.str())
        now = time.monotonic()
        if self._logs and now - self._logged.get(reason, -_AGAIN_S) >= _AGAIN_S:
            self._logged[reason] = now
            log.warning("no connection to Kafka, tried again without end: %s", reason)

    def because(self, otherwise: str) -> str:
        """The newest reason behind what a request said, for an error's text; the latter alone where there is none."""
        return f"{otherwise}; {self._last}" if self._last else otherwise
