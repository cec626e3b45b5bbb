"""Options that many commands have in common: given by the environment, as settings, or as a list of names."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_name

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


def settings_option(option: str, given: Sequence[str]) -> dict[str, str]:
    """The settings that an option was given with, by name.

    Args:
        option: its name, for the error.
        given: each ``name=value``.

    Raises:
        ConfigurationError: one has no name, or no ``=``.
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ConfigurationError(f"{option} has an entry without a name and '=': write name=value.")
        found[name] = value
    return found


def names_option(text: str) -> tuple[str, ...]:
    """The names of ``a,b``, for argparse.

    Raises:
        ArgumentTypeError: there is none, or one cannot be a name.
    """
    try:
        return tuple(check_name("instance", name.strip()) for name in text.split(","))
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
