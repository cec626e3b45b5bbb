"""What can be waited for of standbys: that they are warm, copied elsewhere, or compared with their actives."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.status import (
    CertificateStatus,
    InstanceState,
    Role,
    SnapshotStatus,
    TaskState,
    TaskStatus,
)
from airflow_provider.control.topics.liveness import Liveness, Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.evaluation import (
    Condition,
    Evaluation,
    Observation,
    Outcome,
    active_line,
    copy_line,
    end_of,
    met_unless,
    task_list,
)
from airflow_provider.control.waiting.task import active_task, chosen_tasks, refuse_unknown
from airflow_provider.errors import InstanceError


class StandbysWarm(Condition, frozen=True, kw_only=True):
    """Every task runs and has its standbys, warm and near the end of the changelog, and none of them has an error.

    Args:
        num_standby_replicas: how many warm standbys a task must have; None for all that it is assigned.
        max_lag_records: a standby counts when its lag is at most this many records; None does not look at it.
        max_lag_s: the same in seconds.
        generation: the assignment that is waited for, or a newer one.
        certified: whether a standby counts only when its store was found to hold what its active's did.
        certified_within_s: a standby counts when that was no longer ago, in seconds; None does not look at it.
        wait_for_instances: whether an instance that the assignment names, and that does not run, is waited for.
        restarted_later: instances whose failed tasks are left out, because they are to be restarted after this.
    """

    num_standby_replicas: int | None = 1
    tasks: tuple[TaskId, ...] | None = None
    max_lag_records: int | None = None
    max_lag_s: float | None = None
    generation: int = 1
    certified: bool = False
    certified_within_s: float | None = None
    wait_for_instances: bool = True
    restarted_later: tuple[str, ...] = ()

    def __str__(self) -> str:
        which = "every task" if self.tasks is None else f"{task_list(self.tasks)}"
        bounds = [f"{self.max_lag_records} records"] if self.max_lag_records is not None else []
        bounds += [f"{self.max_lag_s:g} s"] if self.max_lag_s is not None else []
        within = f" within {' and '.join(bounds)}" if bounds else ""
        kind = "warm, certified" if self.certified or self.certified_within_s is not None else "warm"
        number = "all of its" if self.num_standby_replicas is None else self.num_standby_replicas
        kind += "" if self.certified_within_s is None else f" (within the last {self.certified_within_s:g} s)"
        return f"{which} to run with {number} {kind} standby(s){within}"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when a task failed, whose standbys cannot get warmer than its last commit, or too many standbys did.

        Without `wait_for_instances`, also when one of the assignment's instances ended, is silent, or never ran.
        """
        assignment = seen.view.assignment
        if assignment is None or assignment.generation < self.generation:
            return Evaluation(Outcome.WAITING, "this generation was not published yet")
        if (refusal := refuse_unknown(assignment, self.tasks)) is not None:
            return refusal
        if not self.wait_for_instances and (absent := _absent(seen, assignment)) is not None:
            return Evaluation(Outcome.FAILED, absent)
        lags, waiting = {}, []
        for task_id in chosen_tasks(assignment, self.tasks):
            active = active_task(seen, assignment, task_id)
            if active is not None and active.state is TaskState.FAILED:
                where = assignment.tasks[task_id].active
                if where in self.restarted_later:
                    continue
                return Evaluation(Outcome.FAILED, f"task {task_id} failed on {where}: {active.error}")
            if active is None or active.state is not TaskState.RUNNING or active.error is not None:
                waiting.append(active_line(assignment, task_id, active))
                continue
            copies = {name: copy(seen, name, task_id) for name in assignment.tasks[task_id].standbys}
            near = {n: c.lag_records for n, c in copies.items() if c is not None and self._near(c, seen.now_ms)}
            lags[str(task_id)] = near
            wanted = len(copies) if self.num_standby_replicas is None else self.num_standby_replicas
            held = {n: c for n, c in copies.items() if c is not None and _is_held(c, assignment.generation)}
            if len(copies) - len(held) < wanted <= len(copies):
                name, why = next((n, c.error) for n, c in held.items())
                line = f"the standby of task {task_id} failed on {name}, and no wait helps: {why}"
                return Evaluation(Outcome.FAILED, f"{line}. Correct that, then deploy {name} again")
            if len(near) < wanted:
                found = ", ".join(f"{n} {copy_line(c)}" for n, c in copies.items()) or "none assigned"
                waiting.append(f"task {task_id} has {len(near)} of {wanted} standbys ({found})")
        result = {"generation": assignment.generation, "lag_records": lags}
        return met_unless(waiting, f"all are warm in generation {assignment.generation}", result)

    def _near(self, task: TaskStatus, now_ms: int) -> bool:
        if not task.ready or task.lag_records is None:
            return False
        if (self.certified or self.certified_within_s is not None) and task.certificate.position is None:
            return False
        if self.certified_within_s is not None:
            at_ms = task.certificate.at_ms
            if at_ms is None or now_ms - at_ms > 1000 * self.certified_within_s:
                return False
        if self.max_lag_records is not None and task.lag_records > self.max_lag_records:
            return False
        return self.max_lag_s is None or (task.lag_s is not None and task.lag_s <= self.max_lag_s)


def _absent(seen: Observation, assignment: Assignment) -> str | None:
    """The first instance that does not run, and how to start it; None where each runs or starts."""
    for name in assignment.instances:
        status = seen.view.statuses.get(name)
        if status is not None and seen.liveness(status) is Liveness.ALIVE:
            continue
        how = "which has never run" if status is None else f"and {end_of(status, seen)}"
        return (
            f"the assignment names {name}, {how}. Start it: by the deploy DAG, or on its host by "
            f"'stateful-streams run JOB --instance {name}'. Or give its tasks to instances that run"
        )
    return None


def _is_held(task: TaskStatus, generation: int) -> bool:
    """What it says of an older generation was answered by the newer one, which tries it again."""
    return task.held_standby and task.generation >= generation


def copy(seen: Observation, instance: str, task_id: TaskId) -> TaskStatus | None:
    """How the instance, if it lives, reports its copy of the task."""
    status = seen.living(instance)
    task = status.task(task_id) if status else None
    return task if task is not None and task.role is Role.STANDBY else None


_DIVERGED: Final = "it held something else than its active's store; it was moved aside and restored"


class StandbysCompared(Condition, frozen=True):
    """An instance has compared some of its standbys' stores with what their actives' held, as a command asked.

    It is met whatever the comparisons found. The result has ``positions`` (by task, where its store held the same) and
    ``diverged`` (by task, what was found, of one that held something else: it is restored from its changelog).

    Args:
        before: by task, what was known before the command.
    """

    instance: str
    incarnation: int
    command: str
    before: dict[TaskId, CertificateStatus]

    def __str__(self) -> str:
        return f"{self.instance} to compare its standbys of {task_list(tuple(self.before))} with their actives"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when the instance refuses, ended or was replaced, or is no standby of a task any more."""
        status = seen.view.statuses.get(self.instance)
        if status is None or status.incarnation < self.incarnation:
            return Evaluation(Outcome.WAITING, "it has sent no heartbeat yet")
        if status.incarnation > self.incarnation:
            return Evaluation(Outcome.FAILED, f"{self.instance} was replaced since it was asked: ask again")
        if (why := status.refusals.get(self.command)) is not None:
            return Evaluation(Outcome.FAILED, f"{self.instance} refuses: {why}")
        if seen.liveness(status) is not Liveness.ALIVE:
            return Evaluation(Outcome.FAILED, end_of(status, seen))
        positions: dict[str, int | None] = {}
        diverged: dict[str, str] = {}
        waiting = []
        for task_id, before in self.before.items():
            task = status.task(task_id)
            if task is not None and task.role is not Role.STANDBY:
                return Evaluation(Outcome.FAILED, f"{self.instance} is the active of task {task_id} now: ask again")
            now = CertificateStatus() if task is None else task.certificate
            # One that was asked for later answers as well: of two commands an instance takes the newer.
            if task is None or now.command in (None, before.command):
                waiting.append(f"task {task_id} is not compared yet ({copy_line(task)})")
            elif now.divergences > before.divergences:
                # The error leaves the status as soon as the store is restored.
                diverged[str(task_id)] = task.error or _DIVERGED
            else:
                positions[str(task_id)] = now.position
        result = {"instance": self.instance, "positions": positions, "diverged": diverged}
        return met_unless(waiting, f"{len(positions)} hold the same, {len(diverged)} do not", result)


class SnapshotsTaken(Condition, frozen=True):
    """An instance has copied the stores of some of its standbys elsewhere, as a command asked.

    Args:
        before: by task, its last snapshot before the command.
    """

    instance: str
    command: str
    before: dict[TaskId, SnapshotStatus]

    def __str__(self) -> str:
        return f"{self.instance} to take snapshots of {task_list(tuple(self.before))}"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when the instance refuses or ended, or a snapshot could not be sent."""
        status = seen.view.statuses.get(self.instance)
        if status is None:
            return Evaluation(Outcome.WAITING, "it has sent no heartbeat yet")
        if (why := status.refusals.get(self.command)) is not None:
            return Evaluation(Outcome.FAILED, f"{self.instance} refuses: {why}")
        if seen.liveness(status) is not Liveness.ALIVE:
            return Evaluation(Outcome.FAILED, end_of(status, seen))
        positions, waiting = {}, []
        for task_id, before in self.before.items():
            task = status.task(task_id)
            now = SnapshotStatus() if task is None else task.snapshot
            if now.error is not None and now.error != before.error:
                return Evaluation(Outcome.FAILED, f"task {task_id}: no snapshot was sent: {now.error}")
            if now.at_ms is None or now.at_ms == before.at_ms:
                waiting.append(f"task {task_id} {'is not there' if task is None else 'has no new one yet'}")
            else:
                positions[str(task_id)] = now.position
        return met_unless(waiting, "all are taken", {"instance": self.instance, "positions": positions})


class AllOf(Condition, frozen=True):
    """All of some conditions are met. The result has ``results``, that of each in their order."""

    conditions: tuple[SnapshotsTaken | StandbysCompared, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.conditions))

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails as soon as one does."""
        found = [condition.evaluate(seen) for condition in self.conditions]
        for outcome in (Outcome.FAILED, Outcome.WAITING):
            if lines := [one.seen for one in found if one.outcome is outcome]:
                return Evaluation(outcome, "; ".join(lines))
        return Evaluation(Outcome.MET, "all are done", {"results": [one.result for one in found]})


_NOTHING: Final = {
    CommandKind.SNAPSHOT: ("copy", "Snapshots are taken of standbys"),
    CommandKind.CERTIFY: ("compare", "Standbys are compared with their actives"),
}


def standby_commands(
    view: ControlView,
    kind: CommandKind,
    run_id: str,
    instances: Collection[str] | None = None,
    tasks: Collection[TaskId] = (),
) -> list[Command]:
    """What to ask of each instance that holds a standby.

    Args:
        run_id: begins the ids of the commands; another one for each time that it is asked.

    Raises:
        InstanceError: no running instance holds such a standby.
    """
    running = view.healthy(Timeouts())
    found = []
    for name in running if instances is None else instances:
        status = view.statuses.get(name)
        if name in running and status is not None and status.state is InstanceState.RUNNING:
            held = tuple(
                task.task for task in status.tasks if task.role is Role.STANDBY and (not tasks or task.task in tasks)
            )
            if held:
                command = Command(
                    id=f"{run_id}/{name}", kind=kind, instance=name, incarnation=status.incarnation, tasks=held
                )
                found.append(command)
    if not found:
        do, why = _NOTHING[kind]
        wanted = f"standby of {', '.join(map(str, tasks))}" if tasks else "standby"
        named = ", ".join(map(repr, instances or ()))
        holds = f"instance {named} of" if named else "no running instance of"
        raise InstanceError(
            f"There is nothing to {do}: {holds} {view.application_id!r} holds {'no' if named else 'a'} {wanted}. "
            f"{why}; look at the status."
        )
    return found


def done(view: ControlView, commands: Collection[Command]) -> AllOf:
    """What to wait for after `standby_commands`."""
    return AllOf(tuple(_done(view, command) for command in commands))


def _done(view: ControlView, command: Command) -> SnapshotsTaken | StandbysCompared:
    status = view.statuses[command.instance]
    standbys = [task for task in status.tasks if task.task in command.tasks]
    if command.kind is CommandKind.SNAPSHOT:
        return SnapshotsTaken(command.instance, command.id, {task.task: task.snapshot for task in standbys})
    certificates = {task.task: task.certificate for task in standbys}
    return StandbysCompared(command.instance, status.incarnation, command.id, certificates)
