"""``snapshot``: asks instances to copy their standbys' stores elsewhere now."""

from __future__ import annotations

import argparse
import json

from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.cli.standby_question import add_standby_options, ask_standbys
from airflow_provider.common.table import table
from airflow_provider.control.records.command import CommandKind


def add_snapshot(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``snapshot``."""
    snapshot = commands.add_parser("snapshot", help="have the standbys' stores copied elsewhere now")
    add_standby_options(snapshot)
    snapshot.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    results = ask_standbys(asked, CommandKind.SNAPSHOT)
    if results is None:
        return ExitStatus.FINE
    if asked.json:
        print(json.dumps({result["instance"]: result["positions"] for result in results}, indent=2))
    else:
        rows = [(one["instance"], task, str(at)) for one in results for task, at in one["positions"].items()]
        print(table(("instance", "task", "snapshot at"), rows))
    return ExitStatus.FINE
