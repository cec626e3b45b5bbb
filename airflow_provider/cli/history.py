"""``history``: the drills, failovers, restores and upgrades that an application went through."""

from __future__ import annotations

import argparse
import json
import re
from datetime import UTC, datetime
from typing import Final

from airflow_provider.cli.cluster import add_application_options, cluster_of
from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.common.clock import now_ms
from airflow_provider.control.history.report import history_table
from airflow_provider.control.history.topic import read_history
from airflow_provider.control.records.history import HistoryKind, history_plain

_UNIT_MS: Final = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def add_history(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``history``."""
    history = commands.add_parser("history", help="drills, failovers, restores and upgrades, with what each cost")
    add_application_options(history)
    history.add_argument("--kind", choices=[kind.value for kind in HistoryKind], help="only this")
    history.add_argument(
        "--since", metavar="WHEN", help="a date such as 2026-01-31 (UTC), or an age such as 36h, 30d or 8w"
    )
    history.add_argument("--json", action="store_true", help="everything, for programs")
    history.set_defaults(act=_act, refuse=history.error)


def _act(asked: argparse.Namespace) -> int:
    try:
        since = None if asked.since is None else since_ms(asked.since, now_ms())
    except ValueError as error:
        asked.refuse(f"argument --since: {error}")
    records = read_history(
        cluster_of(asked), asked.application_id, since, None if asked.kind is None else HistoryKind(asked.kind)
    )
    print(json.dumps([history_plain(record) for record in records], indent=2) if asked.json else history_table(records))
    return ExitStatus.FINE


def since_ms(when: str, now: int) -> int:
    """The epoch ms that a date or an age means.

    Args:
        when: a date or a time as ISO 8601 writes it, UTC where it names no zone; or a number of ``h``, ``d`` or ``w``.
        now: epoch ms.

    Raises:
        ValueError: it is neither.
    """
    if (age := re.fullmatch(r"(\d+)([hdw])", when)) is not None:
        return now - int(age[1]) * _UNIT_MS[age[2]]
    try:
        at = datetime.fromisoformat(when)
    except ValueError:
        raise ValueError(f"{when!r} is neither a date such as 2026-01-31 nor an age such as 30d") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
