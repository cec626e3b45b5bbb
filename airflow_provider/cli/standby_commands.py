"""``snapshot`` and ``certify``: ask instances for something of their standbys."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from airflow_provider.cli.options import add_application_options, add_seconds, check_instance, cluster_of, command_id
from airflow_provider.cli.terminal import ExitStatus, await_condition
from airflow_provider.common.table import table
from airflow_provider.common.task_id import parse_tasks
from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.writer import write_control
from airflow_provider.control.waiting.standby import done, standby_commands


def add_standby_options(parser: argparse.ArgumentParser) -> None:
    """Which standbys, and how long to wait for them."""
    add_application_options(parser)
    parser.add_argument("--instance", metavar="INSTANCE", help="only its standbys")
    parser.add_argument("--task", action="append", default=[], metavar="0_3", help="only of this task")
    parser.add_argument("--no-wait", action="store_true", help="ask, and wait for nothing")
    add_seconds(parser, "--timeout", 600.0, "to wait")
    parser.add_argument("--json", action="store_true", help="for programs")


def ask_standbys(asked: argparse.Namespace, kind: CommandKind) -> list[dict[str, Any]] | None:
    """Ask, and wait unless that was not wanted.

    Returns:
        What each instance answered; None where it was not waited for, after the instances that were asked were printed.
    """
    cluster, application_id = cluster_of(asked), asked.application_id
    with ControlReader(cluster, application_id) as reader:
        view = reader.read_to_end()
    check_instance(view, asked.instance)
    named = None if asked.instance is None else (asked.instance,)
    commands = standby_commands(view, kind, command_id(), named, parse_tasks(asked.task))
    write_control(cluster, application_id, *commands)
    if asked.no_wait:
        print("{}" if asked.json else f"asked {', '.join(command.instance for command in commands)}")
        return None
    results: list[dict[str, Any]] = await_condition(cluster, application_id, done(view, commands), asked.timeout)[
        "results"
    ]
    return results


def add_snapshot(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``snapshot``."""
    snapshot = commands.add_parser("snapshot", help="have the standbys' stores copied elsewhere now")
    add_standby_options(snapshot)
    snapshot.set_defaults(act=_snapshot)


def _snapshot(asked: argparse.Namespace) -> int:
    results = ask_standbys(asked, CommandKind.SNAPSHOT)
    if results is None:
        return ExitStatus.FINE
    if asked.json:
        print(json.dumps({result["instance"]: result["positions"] for result in results}, indent=2))
    else:
        rows = [(one["instance"], task, str(at)) for one in results for task, at in one["positions"].items()]
        print(table(("instance", "task", "snapshot at"), rows))
    return ExitStatus.FINE


def add_certify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``certify``."""
    certify = commands.add_parser("certify", help="have the standbys' stores compared with their actives' now")
    add_standby_options(certify)
    certify.set_defaults(act=_certify)


def _certify(asked: argparse.Namespace) -> int:
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
    """A table of what was found."""
    rows = [
        (one["instance"], task, f"holds the same at {at}") for one in results for task, at in one["positions"].items()
    ]
    rows += [(one["instance"], task, f"DIFFERED: {what}") for one in results for task, what in one["diverged"].items()]
    return table(("instance", "task", "found"), sorted(rows))
