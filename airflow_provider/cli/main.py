"""Look at a stateful streaming application, and act on it, without Airflow.

Exit status: 0 when all went well; 1 for an error, whose one line is on standard error; 2 for wrong arguments; 3 when a
check says no; 4 when a drill was skipped (docs/cli.md).
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final

from airflow_provider.cli.assign import add_assign
from airflow_provider.cli.description import add_describe
from airflow_provider.cli.drill import add_drill
from airflow_provider.cli.failover import add_failover
from airflow_provider.cli.history import add_history, add_metrics
from airflow_provider.cli.instance import add_stop
from airflow_provider.cli.lookup import add_lookup
from airflow_provider.cli.run import add_run
from airflow_provider.cli.standby_commands import add_certify, add_snapshot
from airflow_provider.cli.status import add_status
from airflow_provider.cli.supervised_run import add_health
from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.cli.topics import add_acls, add_topics
from airflow_provider.error_text import error_line
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.kafka.names import check_name


def _add_broker(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``broker``, for the list of commands: its arguments are the kit's, which reads them itself."""
    commands.add_parser(
        "broker",
        add_help=False,
        help="run a Kafka broker on this machine to try a job out; read and write topics",
    )


_COMMANDS: Final = (
    add_status,
    add_run,
    add_stop,
    add_health,
    add_assign,
    add_failover,
    add_describe,
    add_drill,
    add_topics,
    add_acls,
    add_snapshot,
    add_certify,
    add_lookup,
    add_history,
    add_metrics,
    _add_broker,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands; returns the exit status (`ExitStatus`)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["broker"]:
        from airflow_provider.kit.__main__ import main as run_kit

        return run_kit(given[1:], program="stateful-streams broker")
    asked = _parsed(_parser(), given)
    # What a client would log comes as the error's text.
    logging.getLogger("airflow_provider.kafka").addHandler(logging.NullHandler())
    try:
        if "application_id" in asked:
            check_name("application id", asked.application_id)
        return int(asked.act(asked))
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except BrokenPipeError:  # the reader of the lines has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.FINE
    except StatefulStreamsError as error:
        print(f"stateful-streams: {error_line(error)}", file=sys.stderr)
        return ExitStatus.ERROR


def _parsed(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Namespace:
    asked, left = parser.parse_known_args(given)
    # An optional word that stands behind options is left over by argparse before Python 3.13.
    if "what" in asked and asked.what is None and len(left) == 1 and not left[0].startswith("-"):
        asked.what = left.pop()
    if left:
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    return asked


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stateful-streams", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in _COMMANDS:
        add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
