"""Names that an option lists."""

from __future__ import annotations

import argparse

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_name

__all__ = ["names_option"]


def names_option(text: str) -> tuple[str, ...]:
    """The names of ``a,b``, for argparse.

    Raises:
        ArgumentTypeError: there is none, or one cannot be a name.
    """
    try:
        return tuple(check_name("instance", name.strip()) for name in text.split(","))
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
