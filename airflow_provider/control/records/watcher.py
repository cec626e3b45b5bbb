"""Whether an application is watched: what its watcher says of itself, and what follows from its silence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from airflow_provider.control.failover.open_problems import Unanswered

__all__ = ["SILENT_AFTER_S", "WATCHER_INTERVAL_S", "Watcher", "watch_problem", "watched_by"]

WATCHER_INTERVAL_S: Final = 2.0
"""How often a watcher writes that it watches."""

SILENT_AFTER_S: Final = 5 * WATCHER_INTERVAL_S
"""A watcher of which nothing came for so long, while somebody listened, is silent."""


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


def watch_problem(application_id: str, last: Watcher | None, *, heard: bool) -> str | None:
    """What is wrong with the watching, in one line; None where an application is watched.

    Args:
        application_id: the application.
        last: the newest record of a watcher; None where there never was one.
        heard: whether one came while somebody listened for `SILENT_AFTER_S`.
    """
    if heard:
        return None
    if last is None:
        return (
            f"nothing watches {application_id}, and nothing ever did: unpause its failover DAG and run a triggerer, "
            "else no failure is answered."
        )
    return (
        f"nothing watches {application_id}: its watcher was last heard of at {_time(last.sent_at_ms)} (process "
        f"{last.pid} on {last.host}), and not within {SILENT_AFTER_S:g} s now. Look whether a triggerer runs and the "
        "failover DAG is unpaused."
    )


def watched_by(last: Watcher | None, *, watched: bool) -> str:
    """By whom an application is watched, and since when, in a few words.

    Args:
        last: the newest record of a watcher; None where there never was one.
        watched: whether it lives.
    """
    if last is None:
        return "watched by none"
    who = f"process {last.pid} on {last.host}"
    if watched:
        return f"watched by {who} since {_time(last.began_at_ms)}"
    return f"watched by none, last by {who} until {_time(last.sent_at_ms)}"


def _time(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="seconds")
