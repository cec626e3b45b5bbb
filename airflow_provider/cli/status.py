"""``status``: one look at an application."""

from __future__ import annotations

import argparse
import json

from airflow_provider.cli.application_state import ApplicationState
from airflow_provider.cli.cluster import add_application_options, cluster_of
from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.cli.instances_expected import expected_instances
from airflow_provider.cli.status_watch import watch
from airflow_provider.control.reader import ControlReader

__all__ = ["add_status", "look"]


def add_status(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``status``."""
    status = commands.add_parser("status", help="instances, tasks with state and lags, open incidents, problems")
    add_application_options(status)
    status.add_argument("--json", action="store_true", help="everything, for programs")
    status.add_argument("--check", action="store_true", help="exit with 3 when there is a problem")
    status.add_argument("--listen", type=float, default=5.0, metavar="SECONDS", help="for heartbeats (%(default)g)")
    status.add_argument(
        "--watch", type=_interval, nargs="?", const=1.0, metavar="SECONDS", help="show it again and again, until Ctrl-C"
    )
    status.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    with ControlReader(cluster_of(asked), asked.application_id) as reader:
        if asked.watch is not None:
            watch(reader, asked.watch, as_json=asked.json)
            return ExitStatus.FINE
        state = look(reader, asked.listen)
    print(json.dumps(state.to_json(), indent=2) if asked.json else state.to_text())
    return ExitStatus.NO if asked.check and state.problems else ExitStatus.FINE


def _interval(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def look(reader: ControlReader, listen_s: float) -> ApplicationState:
    """Read the control topics to their end, and listen until each living instance was heard again.

    Args:
        reader: of the application.
        listen_s: how long to listen at most.

    Raises:
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """
    view = reader.read_to_end()
    return ApplicationState(view, reader.listen(lambda: expected_instances(view), listen_s))
