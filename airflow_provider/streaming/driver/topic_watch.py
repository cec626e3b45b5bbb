"""Whether the topics of a running instance still are what it was started on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence

from airflow_provider.errors import (
    AccessError,
    BrokerUnreachableError,
    ConfigurationError,
    TopicError,
    TopicMismatchError,
)
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicDescription, TopicSpec, config_command

__all__ = ["TopicWatch"]

log = logging.getLogger(__name__)

_AGAIN_S = 5.0


class TopicWatch:
    """Verifies topics at the start and then again and again, in a thread of its own.

    What refuses a start must end a run: a changelog that is not compacted any more loses state with the next restore,
    and partitions that were added to a source are not read. What only keeps it from looking does not: the right may be
    given back.

    Args:
        admin: of the cluster.
        specs: the topics as they have to be.
        interval_s: how often to look.
        changelogs: names of those among the topics whose deletions the stores rely on: they are to be kept for as long
            as when the watch was made, or longer.

    Raises:
        TopicError: (on making it) a topic is not as it has to be.
        BrokerUnreachableError: (on making it) no broker answered.
    """

    def __init__(
        self, admin: TopicAdmin, specs: Sequence[TopicSpec], interval_s: float, changelogs: Collection[str] = ()
    ) -> None:
        self._admin = admin
        self._specs = tuple(specs)
        self._interval_s = interval_s
        self._changelogs = tuple(changelogs)
        self._found = self._admin.verify(self._specs)
        self._ids = self._read_ids()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topics", daemon=True)
        self._error: TopicError | ConfigurationError | None = None

    @property
    def found(self) -> Mapping[str, TopicDescription]:
        """By topic, what it was when the watch was made."""
        return self._found

    @property
    def ids(self) -> Mapping[str, str]:
        """By topic, its id when the watch was made."""
        return self._ids

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
            AccessError: the right to look at one was taken away; until it is given back.
        """
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        pause_s, doubt = self._interval_s, False
        while not self._stop.wait(pause_s):
            try:
                self._look()
            except AccessError as error:
                if not isinstance(self._error, AccessError):
                    log.warning("the topics cannot be verified, next try in %g s: %s", _AGAIN_S, error)
                self._error, pause_s, doubt = error, min(_AGAIN_S, self._interval_s), False
            except (TopicError, ConfigurationError) as error:
                # A broker that has just started may not know everything yet: only what is found twice is true.
                if doubt:
                    self._error = error
                    return
                log.warning("the topics cannot be verified, next try in %g s: %s", _AGAIN_S, error)
                pause_s, doubt = min(_AGAIN_S, self._interval_s), True
            except BrokerUnreachableError:
                pause_s, doubt = self._interval_s, False
            except Exception as error:
                # What nobody foresaw says nothing of the topics, and must not end the watch over them.
                log.warning("the topics cannot be verified, next try in %g s: %r", self._interval_s, error)
                pause_s, doubt = self._interval_s, False
            else:
                self._error, pause_s, doubt = None, self._interval_s, False

    def _look(self) -> None:
        found = self._admin.verify(self._specs)
        ids = self._read_ids()
        for name, before in self._ids.items():
            if ids[name] != before:
                raise TopicMismatchError(
                    f"Topic {name!r} was deleted and created again while it was in use (its id was {before}, is "
                    f"{ids[name]}): its records are gone. Find out who did it. If it is a changelog, the stores of "
                    "this instance still hold what they were applied to, and are all that is left: see 'Changelog "
                    "missing or mismatched' in the runbook."
                )

        for name in self._changelogs:
            was_ms, is_ms = self._found[name].delete_retention_ms, found[name].delete_retention_ms
            if is_ms < was_ms:
                raise TopicMismatchError(
                    f"Topic {name!r} has delete.retention.ms={is_ms}, and had {was_ms} when this instance started: a "
                    "store that stands still for longer would miss a deletion, and bring the key back. Deploy the "
                    "instance again, so that it reads the new value, or set the old one with "
                    f"{config_command(name, 'delete.retention.ms', str(was_ms))}."
                )

    def _read_ids(self) -> Mapping[str, str]:
        return self._admin.ids([spec.name for spec in self._specs])
