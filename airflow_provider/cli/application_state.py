"""What an application does, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Final

from airflow_provider.cli.task_tables import (
    certified,
    missing_standbys,
    standby_rows,
    standby_table,
    store_table,
    task_totals,
    timer_table,
)
from airflow_provider.cli.text import ago, causes, listed, shortened
from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.store_signature import ROCKSDB
from airflow_provider.common.table import number, seconds, table, utc
from airflow_provider.common.task_id import TaskId, tasks_of
from airflow_provider.control.failover.open_problems import unanswered_problems, watched_by
from airflow_provider.control.outlook.losses import Losses, loss_lines
from airflow_provider.control.outlook.predicted_rto import PredictedRto, measured_rto_ms, predict_rto
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

_TASK_COLUMNS: Final = (
    "task", "instance", "role", "state", "lag", "lag s", "certified", "source lag", "processed", "filtered",
    "left out", "late", "lost", "records/s", "predicted RTO", "last RTO",
)  # fmt: skip
_MOST_ROWS: Final = 16
"""Of a table, so that all fits a screen."""


@dataclass(frozen=True)
class ApplicationState:
    """One look at an application.

    Args:
        silent: the instances that reported no end and sent no heartbeat while they were listened to; not one that may
            still be starting.
        history: what the application went through, the oldest first: predictions rest on it.
        losses: by task, what it left out within the last ten minutes.
        num_standby_replicas: wanted standbys per task; fewer where there are not enough instances.
    """

    view: ControlView
    silent: Collection[str] = ()
    _: KW_ONLY
    watched: bool = False
    history: Sequence[HistoryRecord] = ()
    losses: Mapping[TaskId, Losses] = field(default_factory=dict)
    num_standby_replicas: int = 1

    @cached_property
    def predicted(self) -> dict[TaskId, PredictedRto]:
        """By task that has an active instance, what its failure would cost now."""
        healthy = [name for name in self.view.healthy(Timeouts()) if name not in self.silent]
        return predict_rto(self.view, self.history, healthy)

    @cached_property
    def measured_ms(self) -> dict[TaskId, int]:
        """By task, the RTO of its newest failover that was measured."""
        return measured_rto_ms(self.history)

    @property
    def problems(self) -> tuple[str, ...]:
        """A line for what keeps a task from its work, a standby from being warm, or a failure from an answer."""
        # What a watcher said that lives no more may be long over.
        found = list(unanswered_problems(self.view)) if self.watched else []
        assignment = self.view.assignment
        if assignment is None:
            return (*found, "nothing is assigned yet", *self._late_starts(()), *self._unwell_without_task(()))
        starting = self._starting(assignment.instances)
        if starting:
            found.append(f"starting, and the tasks of each wait for it: {', '.join(starting)}")
        for name in assignment.instances:
            status = self.view.statuses.get(name)
            if status is None or not status.state.alive or name in self.silent or status.error is not None:
                found.append(f"instance {name}: {self._state(name)}{_because(status.error if status else None)}")
        found += self._late_starts(assignment.instances)
        found += self._lost_without_task(assignment.instances)
        found += self._unwell_without_task(assignment.instances)
        for task_id, task in assignment.tasks.items():
            own = self._task(task.active, task_id)
            if task.active is None:
                found.append(f"task {task_id}: no instance is active")
            elif task.active in starting:
                pass
            elif own is None or own.role is not Role.ACTIVE or own.state is not TaskState.RUNNING:
                state = "unknown" if own is None else own.state.value
                found.append(f"task {task_id}: {state} on {task.active}{_because(own.error if own else None)}")
            elif own.error is not None:
                found.append(f"task {task_id}: running on {task.active}{_because(own.error)}")
            elif own.source.stalled_s > Timeouts.stall_s:
                found.append(
                    f"task {task_id}: stands still on {task.active} for {own.source.stalled_s:.0f} s, while "
                    f"{_waiting(own)} of its source wait"
                )
            elif own.source.gets_ready:
                found.append(
                    f"task {task_id}: gets ready on {task.active}: Spark has not begun its first micro-batch yet, "
                    f"while {_waiting(own)} of its source wait"
                )
            elif (wait := own.source.waits_for) is not None:
                found.append(f"task {task_id}: waits on {task.active} {wait_text(wait)}")
            for name in (standby for standby in task.standbys if standby not in starting):
                copy = self._task(name, task_id)
                if copy is not None and copy.held_standby:
                    why = _because(copy.error)
                    then = "" if copy.tried_again else " once that instance is deployed again"
                    found.append(f"task {task_id}: the standby on {name} has failed, and is tried again{then}{why}")
                elif copy is None or not copy.ready:
                    progress = None if copy is None else copy.error or progress_line(copy)
                    found.append(f"task {task_id}: no warm standby on {name}{_because(progress)}")
        found += self._overloaded(assignment)
        found += loss_lines(self.losses, "within the last ten minutes")
        found += self._other_stages(assignment)
        found += missing_standbys(self.view, self.num_standby_replicas, self.silent)
        return tuple(found)

    @property
    def open_incidents(self) -> tuple[str, ...]:
        """What was answered by a failover and is not resolved yet, in one line each, the oldest first."""
        return tuple(_incident_line(record, record.decisions) for record in self._open_records)

    @property
    def _open_records(self) -> list[IncidentRecord]:
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
        """The newest assignment, every instance's last heartbeat as it was sent, and what `to_text` shows besides."""
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
        }

    def to_text(self, *, standbys: bool = False, everything: bool = False) -> str:
        """Tables, what waits for event time, open incidents and an uneven load where there are any, and the problems.

        It fits a screen: many tasks are summed up by instance, and what is wrong stands there by its cause.

        Args:
            standbys: a table of the standbys instead of those of instances and tasks.
            everything: a line for each stage, task, incident and problem, whole, however many they are.
        """

        def below(title: str, sentences: Sequence[str]) -> str:
            if everything:
                return listed(title, sentences)
            return shortened(title, causes(sentences, self._instance_names), "all of it: --all")

        incidents = [
            _incident_line(one, one.decisions if everything else causes(one.decisions, self._instance_names))
            for one in self._open_records
        ]
        problems, uneven = self.problems, self.uneven_load
        generation = self.view.assignment.generation if self.view.assignment else "none"
        watching = watched_by(self.view.watcher, watched=self.watched)
        parts = [
            f"{self.view.application_id}, generation {generation}, {watching}",
            *self._stages(everything=everything),
            *(
                [standby_table(standby_rows(self.view, self.silent))]
                if standbys
                else self._tables(everything=everything)
            ),
            *self._timers(everything=everything),
            *self._stores(),
            *([below("time that waits:", self.held_time)] if self.held_time else []),
            *([below("open incidents:", incidents)] if incidents else []),
            *([listed("uneven load:", [uneven])] if uneven else []),
            below("problems:", problems) if problems else "no other problems" if incidents else "no problems",
        ]
        return "\n\n".join(parts)

    def _other_stages(self, assignment: Assignment) -> list[str]:
        """Where the job was changed since its tasks were assigned."""
        if self.view.job is None or any(stage.partitions is None for stage in self.view.job.stages):
            return []
        tasks = set(tasks_of(self.view.job.num_partitions))
        more, less = sorted(tasks - assignment.tasks.keys()), sorted(assignment.tasks.keys() - tasks)
        advice = "once the instances run this version of the job, assign the tasks"
        return [
            *([f"not assigned, though the job has them: {', '.join(map(str, more))}: {advice}"] if more else []),
            *([f"assigned, though the job has them no more: {', '.join(map(str, less))}: {advice}"] if less else []),
        ]

    def _timers(self, *, everything: bool) -> list[str]:
        """The timers of the active tasks; of many tasks, of each stage."""
        found = [(task.task, task.timers) for task, _ in self._copies() if task.role is Role.ACTIVE and task.timers]
        return [timer_table(found, by_stage=len(found) > _MOST_ROWS and not everything)] if found else []

    def _stores(self) -> list[str]:
        """The stores that are not kept by RocksDB, where there are any."""
        found = [task for task, _ in self._copies() if task.store_kind != ROCKSDB]
        return [store_table(found)] if found else []

    @property
    def _instance_names(self) -> set[str]:
        return {*self.view.statuses, *(self.view.assignment.instances if self.view.assignment else ())}

    def _stages(self, *, everything: bool) -> list[str]:
        """What the first number of a task's name stands for, where there are several."""
        stages = self.view.job.stages if self.view.job else ()
        if len(stages) > _MOST_ROWS and not everything:
            return [f"{len(stages)} stages: describe {self.view.application_id} names them, and so does --all"]
        rows = [(str(stage.number), stage.name, stage.source, stage.store or "-") for stage in stages]
        return [table(("stage", "name", "reads", "store"), rows)] if len(rows) > 1 else []

    def _tables(self, *, everything: bool) -> list[str]:
        copies = self._copies()
        summed_up = len(copies) > _MOST_ROWS and not everything
        return [
            table(("instance", "state", "incarnation", "generation", "host", "pid"), self._instance_rows()),
            self._totals(copies) if summed_up else table(_TASK_COLUMNS, [self._task_row(*copy) for copy in copies]),
        ]

    def _totals(self, copies: Sequence[tuple[TaskStatus, InstanceStatus]]) -> str:
        summed_up = [(task, status.instance, self._task_state(task, status)) for task, status in copies]
        return task_totals(summed_up, self.predicted, self.measured_ms)

    def _instance_rows(self) -> list[Sequence[str]]:
        return [
            (
                name,
                self._state(name),
                str(status.incarnation),
                str(status.generation),
                _hosts(status),
                str(status.process.pid or "-"),
            )
            for name, status in sorted(self.view.statuses.items())
        ]

    def _copies(self) -> list[tuple[TaskStatus, InstanceStatus]]:
        """Of all tasks that count, in order, the active one first."""
        rows: list[tuple[TaskStatus, InstanceStatus]] = [
            (task, status)
            for status in self.view.statuses.values()
            for task in status.tasks
            if self._counts(status, task)
        ]
        return sorted(rows, key=lambda row: (row[0].task, row[0].role is Role.STANDBY, row[1].instance))

    def _task_row(self, task: TaskStatus, status: InstanceStatus) -> Sequence[str]:
        of_active = (
            number(task.source.lag_records),
            number(task.processed_records),
            number(sum(task.filtered_records.values())),
            number(task.failed_records),
            number(task.late_records),
            number(task.lost_records),
            f"{task.records_per_s:,.0f}",
            *self._rto(task.task),
        )
        return (
            str(task.task),
            status.instance,
            task.role.value,
            self._task_state(task, status),
            number(task.lag_records),
            "-" if task.lag_s is None else f"{task.lag_s:.1f}",
            certified(task, status.sent_at_ms),
            *(of_active if task.role is Role.ACTIVE else "-" * len(of_active)),
        )

    def _lives(self, status: InstanceStatus) -> bool:
        return status.state.alive and status.instance not in self.silent

    def _counts(self, status: InstanceStatus, task: TaskStatus) -> bool:
        """What a silent instance said last counts as long as it is assigned the task: then it says what is missing."""
        given = self.view.assignment.tasks.get(task.task) if self.view.assignment else None
        missed = given is not None and status.instance in (given.active, *given.standbys)
        return status.state.alive and (missed or status.instance not in self.silent)

    def _task_state(self, task: TaskStatus, status: InstanceStatus) -> str:
        if status.instance in self.silent:
            return "silent"
        if task.role is Role.ACTIVE and task.state is TaskState.RUNNING and task.source.gets_ready:
            return "gets ready"
        return "warm" if task.warm else task.state.value

    def _rto(self, task_id: TaskId) -> tuple[str, str]:
        """As predicted, and as it was the last time."""
        one = self.predicted.get(task_id)
        by_default = one is not None and one.total_ms is not None and not one.phases.failovers
        predicted = f"{'~' if by_default else ''}{seconds(one.total_ms if one else None, 1)}"
        return predicted, seconds(self.measured_ms.get(task_id), 1)

    def _starting(self, names: Collection[str]) -> list[str]:
        """Those that send no heartbeats yet since Spark is not up, and are not overdue."""
        statuses = ((name, self.view.statuses.get(name)) for name in names if name not in self.silent)
        return [name for name, status in statuses if status is not None and status.state is InstanceState.STARTING]

    def _overloaded(self, assignment: Assignment) -> list[str]:
        """The tasks that no further failover moves, because the ones before did not help, with the figures once."""
        held: dict[str, list[TaskId]] = {}
        for record in sorted(self.view.incidents.values(), key=lambda one: one.decided_at_ms):
            for one in record.plan:
                own = self._task(record.incident.instance, one.task)
                here = assignment.tasks[one.task].active == record.incident.instance if own else False
                if one.overloaded and here and own is not None and own.source_offset == record.incident.source_offset:
                    held.setdefault(one.evidence.rpartition("; ")[2], []).append(one.task)
        return [f"task {', '.join(map(str, sorted(set(tasks))))}: held: {why}" for why, tasks in held.items()]

    def _lost_without_task(self, named: Collection[str]) -> list[str]:
        """Those beside the named ones whose last word was that they work, long ago."""
        return [
            f"instance {name}: {self._state(name)}, and assigned nothing: it was lost without a word; start it again"
            for name, status in sorted(self.view.statuses.items())
            if name in self.silent and name not in named and status.state is not InstanceState.STARTING
        ]

    def _unwell_without_task(self, named: Collection[str]) -> list[str]:
        """Those beside the named ones that say why they ended, or what is refused to them although they run."""
        return [
            f"instance {name}: {self._state(name)}, and assigned nothing{_because(status.error)}"
            for name, status in sorted(self.view.statuses.items())
            if name not in named and name not in self.silent and status.error is not None
        ]

    def _late_starts(self, named: Collection[str]) -> list[str]:
        """Those beside the named ones that were launched, and are not up although a start takes less."""
        return [
            f"instance {name}: {self._state(name)} for longer than a start may take: look at its log, then deploy it "
            "again"
            for name, status in sorted(self.view.statuses.items())
            if status.state is InstanceState.STARTING and name in self.silent and name not in named
        ]

    def _state(self, name: str) -> str:
        status = self.view.statuses.get(name)
        if status is None:
            return "no heartbeat on record"
        return f"silent ({status.state.value})" if name in self.silent else status.state.value

    def _task(self, instance: str | None, task_id: TaskId) -> TaskStatus | None:
        status = self.view.statuses.get(instance or "")
        return None if status is None else status.task(task_id)


def _because(error: str | None) -> str:
    return f": {' '.join(error.split())}" if error else ""


def _incident_line(record: IncidentRecord, decisions: Iterable[str]) -> str:
    decided = "; ".join(decisions) or "no task was moved"
    return (
        f"{record.incident.id}{_because(record.incident.evidence)}; answered by {record.answered_by} at "
        f"{utc(record.decided_at_ms)} with generation {record.generation}{_because(decided)}"
    )


def _waiting(task: TaskStatus) -> str:
    return f"{(task.source.lag_records or 0) + task.source.uncommitted_records:,} records"


def _hosts(status: InstanceStatus) -> str:
    """Where the driver runs, and on a Spark cluster where the stores lie."""
    driver = status.process.host or "-"
    return driver if status.stores_host in ("", driver) else f"{driver}, stores on {status.stores_host}"


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
