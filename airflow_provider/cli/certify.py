"""``certify``: asks instances to compare their standbys' stores with their actives' now."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.cli.standby_question import add_standby_options, ask_standbys
from airflow_provider.common.table import table
from airflow_provider.control.records.command import CommandKind


def add_certify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``certify``."""
    certify = commands.add_parser("certify", help="have the standbys' stores compared with their actives' now")
    add_standby_options(certify)
    certify.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    results = ask_standbys(asked, CommandKind.CERTIFY)
    if results is None:
        return ExitStatus.FINE
    if asked.json:
        found = {one["instance"]: {key: one[key] for key in ("positions", "diverged")} for one in results}
        print(json.dumps(found, indent=2))
    else:
        print(certificates(results))
    return ExitStatus.NO if any(result["diverged"] for result in results) else ExitStatus.FINE


def certificates(results: Sequence[dict[str, Any]]) -> str:
    """A table of what was found.

    Args:
        results: of each instance (`control.waiting.standby.StandbysCompared`).
    """
    rows = [
        (one["instance"], task, f"holds the same at {at}") for one in results for task, at in one["positions"].items()
    ]
    rows += [(one["instance"], task, f"DIFFERED: {what}") for one in results for task, what in one["diverged"].items()]
    return table(("instance", "task", "found"), sorted(rows))
