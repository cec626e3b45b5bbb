"""What went wrong, what was done about it and why, and what the watcher says of what was not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskRestore


class Action(Enum):
    """What becomes of a task."""

    PROMOTE = "promote"
    """A standby becomes the active one. Costs its lag."""
    REPLAY = "replay"
    """An instance without a warm copy becomes the active one and restores it from the changelog."""
    WAIT = "wait"
    """There is no living instance: a new one has to be deployed."""
    KEEP = "keep"
    """Its instance failed and is being started again: its store is there, and no other copy is warm."""
    RENEW = "renew"
    """It stays where it is, in a newer generation."""
    HOLD = "hold"
    """The task would fail anywhere, or did: a person has to correct the record, function, setting or host."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What becomes of one task, and why.

    Args:
        to: the instance that is to be active; None for `Action.WAIT` and `Action.HOLD`.
        evidence: the candidates and what was known of each, in one line.
        no_candidate: of `Action.HOLD`, whether another instance could have taken it, and there was none.
        overloaded: of `Action.HOLD`, whether failovers followed each other without helping (`failover.pace`).
    """

    task: TaskId
    action: Action
    to: str | None
    evidence: str
    no_candidate: bool = False
    overloaded: bool = False

    def __str__(self) -> str:
        where = f" on {self.to}" if self.to else ""
        return f"task {self.task}: {self.action.value}{where} ({self.evidence})"


class IncidentKind(Enum):
    """What can go wrong with an instance, with a task, or with the assignment."""

    INSTANCE_ENDED = "instance_ended"
    """Its process ended without a clean shutdown, as its launcher reported."""
    HEARTBEAT_MISSED = "heartbeat_missed"
    """No heartbeat came for the instance timeout: its host is lost, or it hangs."""
    INSTANCE_STOPPED = "instance_stopped"
    """It shut down cleanly without a command, as when its host is rebooted or drained, and is assigned still."""
    HAND_OVER = "hand_over"
    """It stopped by a command that asked for a hand-over when no other instance ran; one does now."""
    TASK_FAILED = "task_failed"
    """It reports that a task stopped with an error."""
    TASK_STALLED = "task_stalled"
    """It reports that a task has committed nothing for the stall timeout, while its source has records."""
    TASKS_UNOWNED = "tasks_unowned"
    """Tasks have no active instance, although an instance runs."""
    GENERATION_LOST = "generation_lost"
    """An instance carries out, or found committed, a later generation than the newest assignment."""
    MANUAL = "manual"
    """Nothing was found wrong: a person wants everything moved off it."""

    @property
    def of_instance(self) -> bool:
        """Whether everything is moved off the instance; otherwise it stays, and only tasks are concerned."""
        return self in _OF_INSTANCE

    @property
    def needs_replacement(self) -> bool:
        """Whether the instance is gone although it was to stay."""
        return self in _OF_INSTANCE - {IncidentKind.HAND_OVER, IncidentKind.MANUAL}


_OF_INSTANCE: Final = frozenset(
    {
        IncidentKind.INSTANCE_ENDED,
        IncidentKind.HEARTBEAT_MISSED,
        IncidentKind.INSTANCE_STOPPED,
        IncidentKind.HAND_OVER,
        IncidentKind.MANUAL,
    }
)


@dataclass(frozen=True, kw_only=True)
class Incident:
    """One thing that went wrong, the same for every finder.

    Args:
        instance: to which instance; empty where it is of tasks that no instance has, or of the assignment.
        tasks: the tasks that it held as the active one, or the failed tasks.
        error_kind: of a task's incident: the name of its error; None without one.
        active_since: of a task's incident: the generation in which the instance got the task.
        replay: of a task that failed: the id of the newest command to restore its store afresh after which it did;
            None where it was not replayed.
        generation: of the assignment in which it was found.
        committed: of a task's incident: whether the instance had committed anything since it got the task.
        source_offset: of a task's incident: the next input record; None before a commit is known.
        source_blocked: for `IncidentKind.TASK_STALLED`, whether what its source holds cannot be read by any instance,
            because a transaction of its producer is open.
        heard_at_ms: of the instance's last heartbeat, epoch ms by the broker's clock, 0 where there was none; None
            where that need not be compared.
    """

    application_id: str
    kind: IncidentKind
    instance: str
    incarnation: int
    tasks: tuple[TaskId, ...]
    evidence: str
    error_kind: str | None = None
    active_since: int = 0
    replay: str | None = None
    generation: int = 0
    committed: bool = False
    source_offset: int | None = None
    source_blocked: bool = False
    heard_at_ms: int | None = None

    @property
    def id(self) -> str:
        """The same for the same incident, so that it can be answered once.

        An instance that is gone is one incident, whether its launcher reports it or its heartbeat stays away. One that
        was only silent comes back under its incarnation and is named again by a later generation: its end is another.
        Found under two generations before it is answered, it has two ids, and the second finds it answered.
        """
        process = f"{self.instance}/{self.incarnation}"
        match self.kind:
            case IncidentKind.TASK_FAILED:
                # A replay lets it go on: where it fails again, that is another failure.
                failed = f"{process}/failed-{'-'.join(map(str, self.tasks))}-{self.active_since}"
                return failed if self.replay is None else f"{failed}/{self.replay}"
            case IncidentKind.TASK_STALLED:
                # It may go on by itself, and stand still again further on; and where its producer's transaction ends,
                # it may stand still at the same place for a reason of its own.
                blocked = "-blocked" if self.source_blocked else ""
                tasks = "-".join(map(str, self.tasks))
                return f"{process}/stalled-{tasks}-{self.active_since}-{self.source_offset}{blocked}"
            case IncidentKind.TASKS_UNOWNED:
                return f"unowned/{self.generation}"
            case IncidentKind.GENERATION_LOST:
                return f"generation/{self.generation}"
            case IncidentKind.MANUAL:
                return f"{process}/manual"
        return f"{process}/gone-{self.generation}"


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What the next owners of an incident's tasks did, as of when it was noted: later moves hide it.

    Args:
        resumed_offsets: by task, the source offset with which its new owner went on.
        owned_at_ms: when the last of the tasks was owned, epoch ms; None where one was not, or was moved again.
        first_commit_at_ms: when the last of the tasks that had input had committed again; None where one had not, or
            none had input.
        restores: what each new owner applied of its changelog before it went on.
        without_input: the tasks that were owned and had nothing to commit, because their source held nothing for them.
        lost_records: offsets of input that were deleted before the new owners read them; None where one is not known.
        by_later_answer: whether a task was brought back by a later answer, because this one's owner did not take it.
    """

    resumed_offsets: dict[TaskId, int]
    owned_at_ms: int | None
    first_commit_at_ms: int | None
    restores: tuple[TaskRestore, ...] = ()
    without_input: tuple[TaskId, ...] = ()
    lost_records: int | None = None
    by_later_answer: bool = False

    def over(self, tasks: Collection[TaskId]) -> bool:
        """Whether all of these tasks commit again, as far as they have anything to commit."""
        return self.first_commit_at_ms is not None or (bool(tasks) and set(tasks) <= set(self.without_input))

    @property
    def restored_records(self) -> int:
        """Changelog records that the new owners replayed before they went on."""
        return sum(restore.records for restore in self.restores)


@dataclass(frozen=True, kw_only=True)
class NotedRecovery:
    """What a watcher saw of an incident that is open still; kept in ``<app>-assignment`` under ``recovery/<id>``.

    Apart from the `IncidentRecord`, which runs write: neither can overwrite what the other knows.

    Args:
        incident: `Incident.id`.
        decided_at_ms: of the answer: the same incident may be answered again.
    """

    incident: str
    decided_at_ms: int
    recovery: Recovery


WATCHER: Final = "watcher/"
"""How the name of a watcher begins that answers an incident."""
COMMAND_LINE: Final = "command-line-"
"""The same of a person's command."""


@dataclass(frozen=True, kw_only=True)
class IncidentRecord:
    """What was done about an incident; kept in ``<app>-assignment`` under ``incident/<id>``.

    Args:
        answered_by: the run that decided, e.g. an Airflow run id; of a watcher that did (`WATCHER`), until a run of the
            failover DAG has taken it up.
        answered_by_dag: the id of that run's DAG; None where there is none.
        detected_at_ms: epoch ms at which the watcher saw it.
        decided_at_ms: epoch ms at which the next generation was published.
        no_candidate: a task is held for the only reason that there was no other instance: it is to be decided again
            once there is one.
        resolved_at_ms: epoch ms at which every task had its standbys again; None until then.
        failed_at_ms: of the instance's last heartbeat, of the report of its end, or, where it lives, when its task
            failed or committed last; where it does not report that, of the heartbeat by which the watcher saw the
            failure. Epoch ms by the broker's clock; None where that is not known.
        in_history: whether ``<app>-history`` has it as resolved, so that it need not be remembered here.
    """

    incident: Incident
    answered_by: str
    detected_at_ms: int | None
    decided_at_ms: int
    generation: int
    plan: tuple[Decision, ...] = ()
    no_candidate: bool = False
    resolved_at_ms: int | None = None
    failed_at_ms: int | None = None
    recovery: Recovery | None = None
    in_history: bool = False
    answered_by_dag: str | None = None

    @property
    def decisions(self) -> tuple[str, ...]:
        """One line of evidence per task."""
        return tuple(map(str, self.plan))

    @property
    def holds(self) -> bool:
        """Whether it moved nothing: every task stays where it failed, until a person has corrected what is wrong."""
        return bool(self.plan) and all(one.action is Action.HOLD for one in self.plan)

    @property
    def taken_up(self) -> bool:
        """Whether somebody sees to what follows: a watcher decides, and repairs nothing."""
        return not self.answered_by.startswith(WATCHER)


WATCHER_INTERVAL_S: Final = 2.0
"""How often a watcher writes that it watches."""

SILENT_AFTER_S: Final = 5 * WATCHER_INTERVAL_S
"""A watcher of which nothing came for so long, while somebody listened, is silent."""


@dataclass(frozen=True, kw_only=True)
class Unanswered:
    """An incident that was reported to Airflow more than once, since no run took it up. Kept in the `Watcher`."""

    incident: str
    what: str
    reported_at_ms: int

    @classmethod
    def of(cls, incident: Incident, reported_at_ms: int) -> Unanswered:
        """Of an incident."""
        whose = incident.instance or ", ".join(map(str, incident.tasks))
        return cls(incident=incident.id, what=f"{incident.kind.value} of {whose}", reported_at_ms=reported_at_ms)


@dataclass(frozen=True, kw_only=True)
class Watcher:
    """What a watcher writes every `WATCHER_INTERVAL_S`, after it read and judged all that the brokers held.

    Kept in ``<app>-status`` under ``watcher/<app>`` (``docs/formats.md``). Several watchers of one application write
    under the same key: one that lives is enough.
    """

    application_id: str
    host: str
    pid: int
    began_at_ms: int
    sent_at_ms: int
    unanswered: tuple[Unanswered, ...] = ()
