"""One look at an application: what is wrong, what is open, what a failure would cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Final

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.table import ago, utc
from airflow_provider.common.task_id import TaskId, tasks_of
from airflow_provider.control.failover.open_problems import (
    causes_by_instance,
    unanswered_problems,
    unrepaired_problems,
    watch_problem,
)
from airflow_provider.control.outlook.losses import Losses, loss_lines
from airflow_provider.control.outlook.predicted_rto import PredictedRto, measured_rto_ms, predict_rto
from airflow_provider.control.overview.standbys import missing_standbys, standby_rows
from airflow_provider.control.overview.verdict import Finding, Step, Verdict, Word, step_of_error, verdict
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.records.status import (
    InstanceState,
    InstanceStatus,
    Role,
    TableWaitStatus,
    TaskState,
    TaskStatus,
    progress_line,
)
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView

_TAKEN_OVER: Final = frozenset({TaskState.OWNING, TaskState.RESTORING})
_FAR_BEHIND_S: Final = 60.0
"""A standby that lags for longer than this is not what a failover should wait for."""


@dataclass(frozen=True)
class ApplicationState:
    """One look at an application.

    Args:
        silent: the instances that reported no end and sent no heartbeat while they were listened to; not one that may
            still be starting.
        history: what the application went through, the oldest first: predictions rest on it.
        losses: by task, what it left out within the last ten minutes.
        num_standby_replicas: wanted standbys per task; fewer where there are not enough instances.
        paused_dags: the ids of the DAGs that answer and repair failures, and are paused; none where that is not known.
    """

    view: ControlView
    silent: Collection[str] = ()
    _: KW_ONLY
    watched: bool = False
    history: Sequence[HistoryRecord] = ()
    losses: Mapping[TaskId, Losses] = field(default_factory=dict)
    num_standby_replicas: int = 1
    paused_dags: Sequence[str] = ()

    @cached_property
    def predicted(self) -> dict[TaskId, PredictedRto]:
        """By task that an instance processes, what that instance's failure would cost now."""
        if not self.watched:  # what nobody answers has no end that could be foretold
            return {}
        living = sorted(name for name, status in self.view.statuses.items() if self._lives(status))
        found = predict_rto(self.view, self.history, living)
        return {task_id: one for task_id, one in found.items() if self._is_processed(task_id, one.active)}

    @cached_property
    def measured_ms(self) -> dict[TaskId, int]:
        """By task, the RTO of its newest failover that was measured."""
        return measured_rto_ms(self.history)

    @property
    def problems(self) -> tuple[str, ...]:
        """A line for what keeps a task from its work, a standby from being warm, or a failure from an answer."""
        return tuple(finding.text for finding in self.findings)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The same, each with what it means for the application, and which step of the runbook is about it."""
        # What a watcher said that lives no more may be long over.
        unanswered = unanswered_problems(self.view) if self.watched else ()
        found = self._found(answered=self.watched and not unanswered)
        # Where a task waits for an answer, it is why none comes.
        still = _still(any(one.means is Word.STANDING_STILL for one in found))
        return (*(Finding(line, still, Step.NO_FAILOVER) for line in unanswered), *found)

    def _found(self, *, answered: bool) -> tuple[Finding, ...]:
        """The same without the failures that wait for an answer.

        Args:
            answered: whether a watcher lives, and none does.
        """
        found = [Finding(line, step=Step.NO_FAILOVER) for line in unrepaired_problems(self.view) if self.watched]
        found += [
            Finding(f"the record under {key.decode(errors='replace')!r} cannot be read here{_because(why)}")
            for key, why in sorted(self.view.unreadable.items())
        ]
        assignment = self.view.assignment
        if assignment is None:
            nothing = Finding("nothing is assigned yet", Word.STANDING_STILL, Step.DEPLOY)
            return (*found, nothing, *self._late_starts(()), *self._unwell_without_task(()))
        starting = self._starting(assignment.instances)
        if starting:
            waits = any(assignment.active_on(name) for name in starting)
            found.append(
                Finding(
                    f"starting, and the tasks of each wait for it: {', '.join(starting)}",
                    _still(waits),
                    Step.UNDER_WAY,
                )
            )
        of_gone = self._step_of_gone(answered=answered)
        gone: dict[str | None, Step] = {}
        for name in assignment.instances:
            status = self.view.statuses.get(name)
            if status is None or not status.state.alive or name in self.silent or status.error is not None:
                error, kind = (None, None) if status is None else (status.error, status.error_kind)
                step = step_of_error(kind) or of_gone
                if not self.lives(name):
                    gone[name] = step
                still = _still(name in gone and bool(assignment.active_on(name)))
                found.append(Finding(f"instance {name}: {self.instance_word(name)}{_because(error)}", still, step))
        found += self._late_starts(assignment.instances)
        found += self._lost_without_task(assignment.instances)
        found += self._unwell_without_task(assignment.instances)
        for task_id, task in assignment.tasks.items():
            found += self._of_active(task_id, task.active, starting, of_gone, gone.get(task.active))
            for name in (standby for standby in task.standbys if standby not in starting):
                found += self._of_standby(task_id, name, gone.get(name))
        found += self._overloaded(assignment)
        found += [Finding(line, step=Step.LEFT_OUT) for line in loss_lines(self.losses, "within the last ten minutes")]
        found += self._other_stages(assignment)
        missing = missing_standbys(self.view, self.num_standby_replicas, self.silent)
        found += [Finding(line, step=Step.GONE) for line in missing]
        return tuple(found)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether every task is processed and protected now, in a word; else why not, and what to do next."""
        paused = sorted(name for name, one in self.view.statuses.items() if one.paused and self._lives(one))
        found = list(self.findings)
        if (unwatched := watch_problem(self.view.application_id, self.view.watcher, heard=self.watched)) is not None:
            still = self.view.assignment is not None and any(one.means is Word.STANDING_STILL for one in found)
            # Where a task waits for an answer, it is why none comes.
            found.insert(0 if still else len(found), Finding(unwatched, _still(still), Step.NO_FAILOVER))
        if paused:
            text = (
                f"paused by a person, so nothing is processed there: {', '.join(paused)}; 'Resume' of the operate DAG"
            )
            works = bool(self.view.assignment and any(self.view.assignment.active_on(name) for name in paused))
            found.append(Finding(text, _still(works), Step.TOOLS))
        if self.paused_dags:
            text = (
                f"paused in Airflow, so a failure is answered by the watcher at best, and not repaired: "
                f"{', '.join(self.paused_dags)}; unpause that"
            )
            found.insert(0, Finding(text, step=Step.NO_FAILOVER))  # it hides what nothing else shows
        return verdict(found, self.instance_names)

    @property
    def open_incidents(self) -> tuple[str, ...]:
        """What was answered by a failover and is not resolved yet, in one line each, the oldest first."""
        return tuple(incident_line(record, record.decisions) for record in self.open_records)

    @property
    def open_causes(self) -> tuple[str, ...]:
        """The same, what is alike said once."""
        return causes_by_instance(self.view, self.open_records, incident_line)

    @property
    def open_records(self) -> list[IncidentRecord]:
        """The same as records."""
        return sorted(self.view.unresolved_incidents, key=lambda record: record.decided_at_ms)

    @property
    def held_time(self) -> tuple[str, ...]:
        """A line for each task whose watermark waits for one side of a join, which nothing else is to be done about."""
        alive = [status for status in self.view.statuses.values() if self._lives(status)]
        tasks = sorted((task for status in alive for task in status.tasks), key=lambda task: task.task)
        return tuple(line for task in tasks if task.role is Role.ACTIVE and (line := held_time(task)) is not None)

    @property
    def uneven_load(self) -> str | None:
        """Who is active for two tasks or more beyond another that runs: no problem, but a repair ends by mending it."""
        statuses, assignment = self.view.statuses, self.view.assignment
        running = [name for name in sorted(statuses) if statuses[name].state is InstanceState.RUNNING]
        running = [name for name in running if name not in self.silent]
        if assignment is None or not running:
            return None
        load = {name: len(assignment.active_on(name)) for name in running}
        most, least = max(load, key=load.__getitem__), min(load, key=load.__getitem__)
        if load[most] - load[least] < 2:
            return None
        return (
            f"{most} is active for {load[most]} tasks, {least} for {load[least]}; the last step of a deployment, an "
            "upgrade, a change of scale, and of a repair that replaced an instance evens that out, and so does 'assign "
            "--balance'"
        )

    def to_json(self) -> dict[str, Any]:
        """The newest assignment, every instance's last heartbeat as it was sent, and what is said of them."""
        return {
            "application_id": self.view.application_id,
            "assignment": to_plain(self.view.assignment),
            "instances": {
                name: to_plain(status) | {"silent": name in self.silent}
                for name, status in sorted(self.view.statuses.items())
            },
            "watcher": None if self.view.watcher is None else to_plain(self.view.watcher) | {"watches": self.watched},
            "standbys": [to_plain(row) for row in standby_rows(self.view, self.silent)],
            "predicted_rto_ms": {str(task): one.total_ms for task, one in self.predicted.items()},
            "measured_rto_ms": {str(task): ms for task, ms in self.measured_ms.items()},
            "held_time": list(self.held_time),
            "open_incidents": list(self.open_incidents),
            "uneven_load": self.uneven_load,
            "problems": list(self.problems),
            "verdict": to_plain(self.verdict),
        }

    def _is_processed(self, task_id: TaskId, active: str) -> bool:
        task = self._task(active, task_id)
        return task is not None and (task.role, task.state) == (Role.ACTIVE, TaskState.RUNNING) and self.lives(active)

    def _step_of_gone(self, *, answered: bool) -> Step:
        """What is to be done about instances that do not run.

        Args:
            answered: whether a watcher lives that has seen no failure wait for its answer for too long.
        """
        if any(self._lives(status) for status in self.view.statuses.values()):
            return Step.UNDER_WAY if answered else Step.NO_FAILOVER
        stopped = all(status.state is InstanceState.STOPPED for status in self.view.statuses.values())
        return Step.STOPPED if stopped else Step.ALL_GONE

    def _other_stages(self, assignment: Assignment) -> list[Finding]:
        """Where the job was changed since its tasks were assigned."""
        if self.view.job is None or any(stage.partitions is None for stage in self.view.job.stages):
            return []
        tasks = set(tasks_of(self.view.job.num_partitions))
        more, less = sorted(tasks - assignment.tasks.keys()), sorted(assignment.tasks.keys() - tasks)
        advice = "once the instances run this version of the job, assign the tasks"
        said = (("not assigned, though the job has them", more), ("assigned, though the job has them no more", less))
        return [
            Finding(f"{what}: {', '.join(map(str, tasks))}: {advice}", step=Step.TOOLS) for what, tasks in said if tasks
        ]

    @property
    def instance_names(self) -> set[str]:
        """Of all instances that are or were."""
        return self.view.instance_names

    @cached_property
    def copies(self) -> list[tuple[TaskStatus, InstanceStatus]]:
        """Of all tasks that count, in order, the active one first, each with its instance."""
        rows: list[tuple[TaskStatus, InstanceStatus]] = [
            (task, status)
            for status in self.view.statuses.values()
            for task in status.tasks
            if self._counts(status, task)
        ]
        return sorted(rows, key=lambda row: (row[0].task, row[0].role is Role.STANDBY, row[1].instance))

    def lives(self, name: str) -> bool:
        """Whether an instance says that it lives, and is not silent."""
        status = self.view.statuses.get(name)
        return status is not None and self._lives(status)

    def _lives(self, status: InstanceStatus) -> bool:
        return status.state.alive and status.instance not in self.silent

    def _counts(self, status: InstanceStatus, task: TaskStatus) -> bool:
        """What a silent instance said last counts as long as it is assigned the task: then it says what is missing."""
        given = self.view.assignment.tasks.get(task.task) if self.view.assignment else None
        missed = given is not None and status.instance in given.holders
        return status.state.alive and (missed or status.instance not in self.silent)

    def task_word(self, task: TaskStatus, status: InstanceStatus) -> str:
        """The state of a copy: a `TaskState`, ``warm``, ``gets ready`` or ``silent``."""
        if status.instance in self.silent:
            return "silent"
        if task.role is Role.ACTIVE and task.state is TaskState.RUNNING and task.source.gets_ready:
            return "gets ready"
        return "warm" if task.warm else task.state.value

    def _starting(self, names: Collection[str]) -> list[str]:
        """Those that send no heartbeats yet since Spark is not up, and are not overdue."""
        statuses = ((name, self.view.statuses.get(name)) for name in names if name not in self.silent)
        return [name for name, status in statuses if status is not None and status.state is InstanceState.STARTING]

    def _of_active(
        self, task_id: TaskId, active: str | None, starting: Collection[str], of_all: Step, of_gone: Step | None
    ) -> list[Finding]:
        """What keeps a task from its work.

        Args:
            of_all: the step where no instance lives.
            of_gone: that where its own does not.
        """
        own, still = self._task(active, task_id), Word.STANDING_STILL
        if active is None:
            step = Step.WAIT if any(map(self.lives, self.view.statuses)) else of_all
            return [Finding(f"task {task_id}: no instance is active", still, step)]
        if active in starting:
            return []
        if own is None or own.role is not Role.ACTIVE or own.state is not TaskState.RUNNING:
            state = "unknown" if own is None else own.state.value
            text = f"task {task_id}: {state} on {active}{_because(own.error if own else None)}"
            taken_over = own is None or (own.state in _TAKEN_OVER and own.error is None)
            otherwise = Step.UNDER_WAY if taken_over else Step.STANDS_STILL
            step = of_gone or step_of_error(own.error_kind if own else None) or otherwise
            return [Finding(text, still, step)]
        if own.source.stalled_s > Timeouts.stall_s:
            text = (
                f"task {task_id}: stands still on {active} for {own.source.stalled_s:.0f} s, while "
                f"{_waiting(own)} of its source wait{_because(own.error)}"
            )
            return [Finding(text, still, step_of_error(own.error_kind) or Step.STANDS_STILL)]
        if own.error is not None:
            text = f"task {task_id}: running on {active}{_because(own.error)}"
            return [Finding(text, step=step_of_error(own.error_kind) or Step.WHERE_TO_LOOK)]
        if own.source.gets_ready:
            text = (
                f"task {task_id}: gets ready on {active}: Spark has not begun its first micro-batch yet, "
                f"while {_waiting(own)} of its source wait"
            )
            return [Finding(text, still, Step.STANDS_STILL)]
        if (wait := own.source.waits_for) is not None:
            return [Finding(f"task {task_id}: waits on {active} {wait_text(wait)}", still, Step.TABLE)]
        return []

    def _of_standby(self, task_id: TaskId, name: str, of_gone: Step | None) -> list[Finding]:
        """What keeps a copy from being warm."""
        copy = self._task(name, task_id)
        if copy is not None and copy.held_standby:
            then = "" if copy.tried_again else " once that instance is deployed again"
            text = f"task {task_id}: the standby on {name} has failed, and is tried again{then}{_because(copy.error)}"
            return [Finding(text, step=step_of_error(copy.error_kind) or Step.GONE)]
        if copy is None or not copy.ready:
            progress = None if copy is None else copy.error or progress_line(copy)
            text = f"task {task_id}: no warm standby on {name}{_because(progress)}"
            step = of_gone or step_of_error(copy.error_kind if copy else None) or Step.UNDER_WAY
            return [Finding(text, step=step)]
        if (copy.lag_s or 0) > _FAR_BEHIND_S:
            far = f"{copy.lag_records or 0:,} changelog records behind, {copy.lag_s:.0f} s"
            return [Finding(f"task {task_id}: the standby on {name} is far behind: {far}", step=Step.LAG)]
        return []

    def _overloaded(self, assignment: Assignment) -> list[Finding]:
        """The tasks that no further failover moves, because the ones before did not help, with the figures once."""
        held: dict[str, list[TaskId]] = {}
        for record in sorted(self.view.incidents.values(), key=lambda one: one.decided_at_ms):
            for one in record.plan:
                own = self._task(record.incident.instance, one.task)
                given = assignment.tasks.get(one.task)
                here = given is not None and given.active == record.incident.instance
                if one.overloaded and here and own is not None and own.source_offset == record.incident.source_offset:
                    held.setdefault(one.evidence.rpartition("; ")[2], []).append(one.task)
        return [
            Finding(f"task {', '.join(map(str, sorted(set(tasks))))}: held: {why}", step=Step.HOLD)
            for why, tasks in held.items()
        ]

    def _lost_without_task(self, named: Collection[str]) -> list[Finding]:
        """Those beside the named ones whose last word was that they work, long ago."""
        repaired = {record.incident.instance for record in self.view.unresolved_incidents if record.taken_up}
        return [
            Finding(
                f"instance {name}: {self.instance_word(name)}, and assigned nothing: it was lost without a word; "
                + ("its repair starts it again" if name in repaired else "start it again"),
                step=Step.GONE,
            )
            for name, status in sorted(self.view.statuses.items())
            if name in self.silent and name not in named and status.state is not InstanceState.STARTING
        ]

    def _unwell_without_task(self, named: Collection[str]) -> list[Finding]:
        """Those beside the named ones that say why they ended, or what is refused to them although they run."""
        return [
            Finding(
                f"instance {name}: {self.instance_word(name)}, and assigned nothing{_because(status.error)}",
                step=step_of_error(status.error_kind) or Step.GONE,
            )
            for name, status in sorted(self.view.statuses.items())
            if name not in named and name not in self.silent and status.error is not None
        ]

    def _late_starts(self, named: Collection[str]) -> list[Finding]:
        """Those beside the named ones that were launched, and are not up although a start takes less."""
        return [
            Finding(
                f"instance {name}: {self.instance_word(name)} for longer than a start may take: look at its log, then "
                "deploy it again",
                step=Step.DEPLOY,
            )
            for name, status in sorted(self.view.statuses.items())
            if status.state is InstanceState.STARTING and name in self.silent and name not in named
        ]

    def instance_word(self, name: str) -> str:
        """The state of an instance: an `InstanceState`, or what is known beside it."""
        status = self.view.statuses.get(name)
        if status is None:
            return "no heartbeat on record"
        return f"silent ({status.state.value})" if name in self.silent else status.state.value

    def _task(self, instance: str | None, task_id: TaskId) -> TaskStatus | None:
        return self._by_instance.get((instance or "", task_id))

    @cached_property
    def _by_instance(self) -> dict[tuple[str, TaskId], TaskStatus]:
        return {(name, task.task): task for name, status in self.view.statuses.items() for task in status.tasks}


def _because(error: str | None) -> str:
    return f": {' '.join(error.split())}" if error else ""


def _still(stands: bool) -> Word:
    return Word.STANDING_STILL if stands else Word.DEGRADED


def incident_line(record: IncidentRecord, decisions: Iterable[str]) -> str:
    """What failed, why, who answered it and how."""
    decided = "; ".join(decisions) or "no task was moved"
    # Who holds a task says why, in the words of what was found.
    evidence = "" if record.incident.evidence in decided else _because(record.incident.evidence)
    return (
        f"{record.incident.id}{evidence}; answered by {record.answered_by} at "
        f"{utc(record.decided_at_ms)} with generation {record.generation}{_because(decided)}"
    )


def _waiting(task: TaskStatus) -> str:
    return f"{(task.source.lag_records or 0) + task.source.uncommitted_records:,} records"


_WORTH_MS: Final = 60_000
"""Of two sides that are read side by side one is always a little behind."""


def held_time(task: TaskStatus) -> str | None:
    """What a task's watermark waits for; None where nothing holds it back by a minute or more."""
    time = task.time
    if time.held_back_by is None or (time.held_back_ms is not None and time.held_back_ms < _WORTH_MS):
        return None
    of_task = time.held_back_by.startswith("task ")
    by = time.held_back_by if of_task else repr(time.held_back_by)
    if time.watermark_ms is None or time.held_back_ms is None:
        return f"task {task.task}: there is no watermark yet, because no row of {by} has come"
    at, further = utc(time.watermark_ms), ago(time.held_back_ms)
    if of_task:
        return (
            f"task {task.task}: the watermark stands at {at}, because no later row of {by} has come; another is "
            f"{further} further, and nothing is lost by waiting"
        )
    return (
        f"task {task.task}: the watermark stands at {at}, because no later row of {by} has come; the other side is "
        f"{further} further"
    )


def wait_text(wait: TableWaitStatus) -> str:
    """How long a task of a stream has been waiting for a table, for which of its tasks, and how far that is."""
    others = f" and {wait.others:,} more tasks are" if wait.others else " is"
    at = "the end of the log is not known" if wait.end is None else f"it has read {wait.offset or 0:,} of {wait.end:,}"
    return (
        f"for {wait.for_s:.0f} s until the table is read: task {wait.task}{others} behind in {wait.topic!r}, {at}; "
        f"nothing is lost, look at task {wait.task}"
    )
