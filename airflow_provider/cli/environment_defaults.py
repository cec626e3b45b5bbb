"""Options of a command that may be given by the environment: systemd's ``EnvironmentFile=``, or a pod's ``env``."""

from __future__ import annotations

import argparse
import os
from typing import Final

__all__ = ["set_defaults_of_environment", "variable_of"]

_PREFIX: Final = "STATEFUL_STREAMS_"


def variable_of(option: str) -> str:
    """The environment variable of an option, such as ``STATEFUL_STREAMS_STATE_DIR`` of ``--state-dir``."""
    return _PREFIX + option.removeprefix("--").replace("-", "_").upper()


def set_defaults_of_environment(parser: argparse.ArgumentParser, *options: str) -> None:
    """Let the environment give what the command line does not; argparse takes it as it would take the words.

    Args:
        parser: of a command, with these options.
        options: such as ``--state-dir``.
    """
    for option in options:
        if value := os.environ.get(variable_of(option)):
            parser.set_defaults(**{option.removeprefix("--").replace("-", "_"): value})
