"""What Airflow asks of an instance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Command", "CommandKind"]


class CommandKind(Enum):
    """What an instance can be asked to do."""

    STOP = "stop"
    """Commit, close the stores, say goodbye, end with status 0."""
    PAUSE = "pause"
    """Finish the micro-batch, then process nothing until `RESUME`; standbys go on."""
    RESUME = "resume"
    REPLAY = "replay"
    """Move the stores of ``tasks`` aside and restore them from their changelogs."""
    KILL = "kill"
    """A drill's fault: end the whole process group with SIGKILL, now."""


@dataclass(frozen=True)
class Command:
    """One command to one incarnation of an instance.

    Args:
        id: unique; the instance answers with it in its status.
        kind: what to do.
        instance: to whom.
        incarnation: to which process of it; None to any. A command to an earlier one is ignored.
        tasks: for `CommandKind.REPLAY`.
    """

    id: str
    kind: CommandKind
    instance: str
    incarnation: int | None = None
    tasks: tuple[int, ...] = ()
