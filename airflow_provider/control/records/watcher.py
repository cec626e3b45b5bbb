"""What the watcher of an application says of itself, and of the failures that nothing has answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.control.records.incident import Incident

WATCHER_INTERVAL_S: Final = 2.0
"""How often a watcher writes that it watches."""

SILENT_AFTER_S: Final = 5 * WATCHER_INTERVAL_S
"""A watcher of which nothing came for so long, while somebody listened, is silent."""


@dataclass(frozen=True, kw_only=True)
class Unanswered:
    """An incident that was reported to Airflow more than once, since no failover answered it. Kept in the `Watcher`.

    Args:
        incident: `Incident.id`.
        what: its kind, and the instance or the tasks that it is of, in a few words.
        reported_at_ms: when it was reported first, epoch ms of the watcher's clock.
    """

    incident: str
    what: str
    reported_at_ms: int

    @classmethod
    def of(cls, incident: Incident, reported_at_ms: int) -> Unanswered:
        """Of an incident.

        Args:
            incident: which has no answer.
            reported_at_ms: see above.
        """
        whose = incident.instance or ", ".join(map(str, incident.tasks))
        return cls(incident=incident.id, what=f"{incident.kind.value} of {whose}", reported_at_ms=reported_at_ms)


@dataclass(frozen=True, kw_only=True)
class Watcher:
    """What a watcher writes every `WATCHER_INTERVAL_S`, after it read and judged all that the brokers held.

    Kept in ``<app>-status`` under ``watcher/<app>``. Several watchers of one application write under the same key: one
    that lives is enough.

    Args:
        application_id: what it watches.
        host: of its triggerer.
        pid: of its triggerer.
        began_at_ms: since when it watches without an interruption, epoch ms of its clock.
        sent_at_ms: the same clock; for people, no decision reads it.
        unanswered: what it reported, and no failover has answered although it was reported again.
    """

    application_id: str
    host: str
    pid: int
    began_at_ms: int
    sent_at_ms: int
    unanswered: tuple[Unanswered, ...] = ()
