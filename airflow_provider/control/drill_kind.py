"""The kinds of drills: a row for each says whom it hits, how, and what has to follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from airflow_provider.control.command import CommandKind
from airflow_provider.control.incident import IncidentKind
from airflow_provider.errors import ConfigurationError

__all__ = ["DRILLS", "DrillKind", "DrillSpec", "parse_drill_kind"]


class DrillKind(StrEnum):
    """What can be rehearsed."""

    CRASH = "crash"
    HANG = "hang"


@dataclass(frozen=True, kw_only=True)
class DrillSpec:
    """What a kind of drill does, and what has to follow.

    Args:
        does: what befalls the application, in a few words that follow "a drill".
        command: what the instance is asked to do to itself.
        cause: the incident as which a watcher finds it, to be answered by a failover.
        ends_process: whether the instance's process ends by it, so that it cannot report that it did it.
    """

    does: str
    command: CommandKind
    cause: IncidentKind
    ends_process: bool = False


DRILLS: Final[Mapping[DrillKind, DrillSpec]] = MappingProxyType(
    {
        DrillKind.CRASH: DrillSpec(
            does="kills an instance with SIGKILL",
            command=CommandKind.KILL,
            cause=IncidentKind.INSTANCE_ENDED,
            ends_process=True,
        ),
        DrillKind.HANG: DrillSpec(
            does="stops an instance with SIGSTOP until its tasks run elsewhere, then lets it go on",
            command=CommandKind.HANG,
            cause=IncidentKind.HEARTBEAT_MISSED,
        ),
    }
)


def parse_drill_kind(text: str) -> DrillKind:
    """The kind of a name.

    Raises:
        ConfigurationError: there is no such kind.
    """
    try:
        return DrillKind(text)
    except ValueError as error:
        raise ConfigurationError(f"Found drill kind {text!r}: use one of {', '.join(DrillKind)}.") from error
