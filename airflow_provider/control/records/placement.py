"""Who starts an instance, and who keeps it alive."""

from __future__ import annotations

from enum import Enum

from airflow_provider.errors import ConfigurationError

__all__ = ["Placement", "parse_placement"]


class Placement(Enum):
    """Where an instance lives (docs/adr/0020)."""

    WORKER = "worker"
    """On the Airflow worker whose deploy task launched it, beside it and outliving it."""
    SUPERVISED = "supervised"
    """Where systemd, Kubernetes or another supervisor starts ``run --supervised``; Airflow waits for that."""


def parse_placement(given: str) -> Placement:
    """The placement of a name.

    Raises:
        ConfigurationError: there is none of it.
    """
    try:
        return Placement(given)
    except ValueError:
        names = " or ".join(repr(one.value) for one in Placement)
        raise ConfigurationError(f"placement is {given!r}: use {names}.") from None
