"""What ``snapshot`` and ``certify`` have in common: asking instances for something of their standbys."""

from __future__ import annotations

import argparse
import time
from typing import Any

from airflow_provider.cli.cluster import add_application_options, cluster_of
from airflow_provider.cli.named_instance import check_instance
from airflow_provider.cli.waiting import await_condition
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
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="to wait (%(default)g)")
    parser.add_argument("--json", action="store_true", help="for programs")


def ask_standbys(asked: argparse.Namespace, kind: CommandKind) -> list[dict[str, Any]] | None:
    """Ask, and wait unless that was not wanted.

    Args:
        asked: the command line, with `add_standby_options`.
        kind: what is asked for.

    Returns:
        What each instance answered; None where it was not waited for, after the instances that were asked were printed.

    Raises:
        InstanceError: there is no such instance, no running one holds such a standby, or one cannot do it.
        DeadlineError: it was not done in time.
    """
    cluster, application_id = cluster_of(asked), asked.application_id
    with ControlReader(cluster, application_id) as reader:
        view = reader.read_to_end()
    check_instance(view, asked.instance)
    named = None if asked.instance is None else (asked.instance,)
    commands = standby_commands(view, kind, f"command-line-{time.time_ns()}", named, parse_tasks(asked.task))
    write_control(cluster, application_id, *commands)
    if asked.no_wait:
        print("{}" if asked.json else f"asked {', '.join(command.instance for command in commands)}")
        return None
    results: list[dict[str, Any]] = await_condition(cluster, application_id, done(view, commands), asked.timeout)[
        "results"
    ]
    return results
