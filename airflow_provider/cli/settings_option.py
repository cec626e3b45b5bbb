"""Options that give settings, such as ``--conf name=value``."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.errors import ConfigurationError

__all__ = ["settings_option"]


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
