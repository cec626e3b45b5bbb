"""``broker``: the kit's command line under this one's name."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

__all__ = ["add_broker", "run_broker"]


def add_broker(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``broker``, for the list of commands: its arguments are the kit's, which reads them itself (`run_broker`)."""
    commands.add_parser(
        "broker",
        add_help=False,
        help="run a Kafka broker on this machine to try a job out; read and write topics",
    )


def run_broker(arguments: Sequence[str]) -> int:
    """Run the kit.

    Args:
        arguments: those after ``broker``.

    Returns:
        Its exit status, which means the same.
    """
    from airflow_provider.kit.__main__ import main

    return main(arguments, program="stateful-streams broker")
