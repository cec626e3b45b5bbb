"""What Airflow asks of an instance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider.common.task_id import TaskId

RESTART: Final = "restart/"
"""Begins the id of the `CommandKind.STOP` that is sent because the instance is to be started anew after it."""

TASK_KILLED: Final = "task-killed/"
"""Begins the id of the `CommandKind.STOP` that is sent because a person ended or cleared the waiting Airflow task."""


class CommandKind(Enum):
    """What an instance can be asked to do."""

    STOP = "stop"
    """Commit, close the stores, report the clean shutdown, end with status 0."""
    PAUSE = "pause"
    """Finish the micro-batch, then process nothing until `RESUME`; standbys go on."""
    RESUME = "resume"
    REPLAY = "replay"
    """Move the stores of ``tasks`` aside and restore them from their changelogs."""
    SNAPSHOT = "snapshot"
    """Copy the standbys' stores of ``tasks`` elsewhere now. Refused where the job takes no snapshots."""
    CERTIFY = "certify"
    """Compare the standbys' stores of ``tasks`` with what their actives' held, now."""
    KILL = "kill"
    """A drill's fault: end the whole process group with SIGKILL, now. Refused where the job allows no faults."""
    HANG = "hang"
    """A drill's fault: stand still (SIGSTOP) until the active tasks run elsewhere. Refused as `KILL` is."""
    LOSE_STORE = "lose_store"
    """A drill's fault: remove the stores of ``tasks`` under the workers that have them open. Refused as `KILL` is."""
    CORRUPT_STORE = "corrupt_store"
    """A drill's fault: damage an SST file of the stores of ``tasks``, and open them again. Refused as `KILL` is."""
    SHADOW_RESTORE = "shadow_restore"
    """A drill's: replay the changelogs of ``tasks`` beside their stores, and throw that away. Refused as `KILL` is."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command to one incarnation of an instance; it lies in the assignment topic until it is done.

    Args:
        id: unique; the instance answers with it in its status, and carries it out once however often it is written.
        incarnation: to which process of it; None to any. A command to an earlier one is ignored.
        tasks: for `CommandKind.REPLAY`, `CommandKind.SNAPSHOT`, `CommandKind.CERTIFY`, and a drill's fault in stores.
        generation: for a drill's fault in stores: not carried out any more once a newer assignment was read.
        hand_over: for `CommandKind.STOP`: whether its tasks are to go to others; otherwise they stay its own. None
            where a signal to its launcher asks, and not Airflow.
    """

    id: str
    kind: CommandKind
    instance: str
    incarnation: int | None = None
    tasks: tuple[TaskId, ...] = ()
    generation: int | None = None
    hand_over: bool | None = True
