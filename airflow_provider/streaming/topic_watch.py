"""Whether the topics of a running instance still are what it was started on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from airflow_provider.errors import BrokerUnreachableError, TopicError, TopicMismatchError
from airflow_provider.topics import TopicAdmin, TopicSpec

__all__ = ["TopicWatch"]

log = logging.getLogger(__name__)

_AGAIN_S = 5.0


class TopicWatch:
    """Verifies topics at the start and ever after, in a thread of its own.

    What refuses a start must end a run: a changelog that is not compacted any more loses state with the next restore,
    and nobody reads the partitions that were added to a source.

    Args:
        admin: of the cluster.
        specs: the topics as they have to be.
        interval_s: how often to look.

    Raises:
        TopicError: (on making it) a topic is not as it has to be.
        BrokerUnreachableError: (on making it) no broker answered.
    """

    def __init__(self, admin: TopicAdmin, specs: Sequence[TopicSpec], interval_s: float) -> None:
        self._admin, self._specs, self._interval_s = admin, tuple(specs), interval_s
        self._ids = self._look(None)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topics", daemon=True)
        self._error: TopicError | None = None

    def start(self) -> None:
        """Begin to look again and again."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; returns at once."""
        self._stop.set()

    def check(self) -> None:
        """Raise what was found.

        Raises:
            TopicError: a topic is not what it was any more.
        """
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        pause_s, doubt = self._interval_s, False
        while not self._stop.wait(pause_s):
            try:
                self._look(self._ids)
            except TopicError as error:
                # A broker that has just started may not know everything yet: only what is found twice is true.
                if doubt:
                    self._error = error
                    return
                log.warning("to be looked at again in %g s: %s", _AGAIN_S, error)
                pause_s, doubt = min(_AGAIN_S, self._interval_s), True
            except BrokerUnreachableError:
                pause_s, doubt = self._interval_s, False
            else:
                pause_s, doubt = self._interval_s, False

    def _look(self, known: Mapping[str, str] | None) -> Mapping[str, str]:
        self._admin.verify(self._specs)
        ids = self._admin.ids([spec.name for spec in self._specs])
        for name, before in (known or {}).items():
            if ids[name] != before:
                raise TopicMismatchError(
                    f"Topic {name!r} was deleted and created again while it was in use (its id was {before}, is "
                    f"{ids[name]}): what it held is gone with it. Find out who did it; the stores of this instance "
                    "still hold what they were applied to, and are moved to quarantine by the next start."
                )
        return ids
