"""How long an instance may take to start, for the commands that judge whether one does."""

from __future__ import annotations

import argparse

from airflow_provider.control.topics.liveness import Timeouts


def add_start_timeout(parser: argparse.ArgumentParser) -> None:
    """``--start-timeout``, the same by default wherever an instance is started and looked at.

    Args:
        parser: of a command.
    """
    parser.add_argument(
        "--start-timeout",
        type=float,
        default=Timeouts.start_s,
        metavar="SECONDS",
        help="how long an instance may take to start (%(default)g)",
    )
