"""Operators that have instances do something: stop, pause, replay changelogs, certify and copy standbys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.sdk import Context

from airflow_provider.bases.arguments import parse_flag, parse_names, parse_optional
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import from_plain
from airflow_provider.common.task_id import TaskId, parse_tasks
from airflow_provider.control.history.builder import restore_record, restores_of
from airflow_provider.control.placement.moves import publish_hand_over
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.records.task_state import TaskRestore
from airflow_provider.control.waiting.instance import InstanceEnded, ProcessingPaused
from airflow_provider.control.waiting.standby import done, standby_commands
from airflow_provider.control.waiting.task import TasksReplayed
from airflow_provider.errors import AssignmentError, InstanceError, StatefulStreamsError
from airflow_provider.links import InstanceLogLink
from airflow_provider.operators.control import ControlOperator


class StopInstanceOperator(ControlOperator):
    """Asks an instance to shut down cleanly (commit, close its stores) and waits for that.

    Its tasks are handed over to the other running instances first, to warm standbys where there are any, as when an
    instance of Kafka Streams is closed. Where no other runs they stand still until it or another does. Without
    `hand_over` they stay its own and stand still until it runs again. One that is stopped already is left alone.

    Args:
        hand_over: whether others get its tasks.
        timeout_s: how long the shutdown may take, in seconds.

    Returns:
        The handle of the stopped instance.

    Raises:
        InstanceError: there is no such instance, or it ended otherwise.
        DeadlineError: it did not stop in time.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance", "hand_over")
    operator_extra_links = (InstanceLogLink(),)

    def __init__(
        self,
        *,
        application_id: str,
        instance: str,
        hand_over: bool | str = True,
        timeout_s: float | str | None = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        self.instance = instance
        self.hand_over = hand_over

    def execute(self, context: Context) -> Any:
        status = self.hook.read(self.application_id).statuses.get(self.instance)
        if status is None:
            raise InstanceError(
                f"No status of instance {self.instance!r} of {self.application_id!r} is on record: correct its name."
            )
        self.linked_instance = InstanceHandle.of(status)
        others = parse_flag("hand_over", self.hand_over)
        if others:
            self.publish_by(lambda publisher: publish_hand_over(publisher, self.instance, self.timeouts))
        if status.state.alive:
            stop = Command(
                id=f"stop/{context['run_id']}/{self.task_id}/{status.incarnation}",
                kind=CommandKind.STOP,
                instance=self.instance,
                incarnation=status.incarnation,
                hand_over=others,
            )
            self.hook.write(self.application_id, stop)
        return self.wait_for(InstanceEnded(self.instance, status.incarnation))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        handle: dict[str, Any] = super().execute_complete(context, event)
        self.linked_instance = from_plain(handle, InstanceHandle)
        return handle


class PauseProcessingOperator(ControlOperator):
    """Asks instances to finish their micro-batch and process nothing more until they are resumed. Waits for that.

    They go on living: they keep their tasks, follow changelogs as standbys, send heartbeats, and a failure of one is
    answered. No task of a paused instance counts as standing still. It lasts as long as the process does: one that is
    started afterwards, as a replacement too, processes.

    Args:
        instances: which; None for all that live.
        resume: whether to have them process again instead.
        timeout_s: how long it may take, in seconds.

    Returns:
        ``instances``, and whether they are ``paused``.

    Raises:
        InstanceError: one of them does not live, ended before it reported, or was replaced.
        DeadlineError: they did not report it in time.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instances", "resume")

    def __init__(
        self,
        *,
        application_id: str,
        instances: Sequence[str] | str | None = None,
        resume: bool | str = False,
        timeout_s: float | str | None = 120.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        self.instances = instances
        self.resume = resume

    def execute(self, context: Context) -> Any:
        paused = not parse_flag("resume", self.resume)
        view = self.hook.read(self.application_id)
        alive = {name: status for name, status in view.statuses.items() if status.state.alive}
        named = parse_optional(self.instances)
        chosen = sorted(alive) if named is None else parse_names("instances", named)
        gone = [name for name in chosen if name not in alive]
        if gone or not chosen:
            raise InstanceError(
                f"{', '.join(gone) or 'No instance'} of {self.application_id!r} is not alive (alive: "
                f"{', '.join(sorted(alive)) or 'none'}): name those that are, or deploy first."
            )
        kind = CommandKind.PAUSE if paused else CommandKind.RESUME
        # An id for each try: what was resumed in between has to be paused again.
        commands = [
            Command(
                id=f"{kind.value}/{context['run_id']}/{self.task_id}/{now_ms()}",
                kind=kind,
                instance=name,
                incarnation=alive[name].incarnation,
            )
            for name in chosen
            if alive[name].paused != paused
        ]
        self.hook.write(self.application_id, *commands)
        return self.wait_for(ProcessingPaused({name: alive[name].incarnation for name in chosen}, paused))


class ReplayChangelogOperator(ControlOperator):
    """Has an instance move the stores of some tasks aside and restore them from their changelogs.

    A task that is active there stands still until then, and a standby is not warm. It waits until the
    copies are whole again, with a line of progress in the task's log every few seconds. A retry goes on waiting for the
    same replay; start another run to replay again. What was restored, and how fast, goes into the history.

    Args:
        tasks: the task, such as ``0_3``, or several; it has to hold a copy of each.

    Returns:
        ``instance``, and by task ``restored_records``, ``restored_bytes`` and ``restore_s``.

    Raises:
        InstanceError: the instance is not alive, ended, or a task failed.
        AssignmentError: it holds no copy of a task.
        DeadlineError: the copies were not whole in time.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance", "tasks")

    def __init__(
        self,
        *,
        application_id: str,
        instance: str,
        tasks: TaskId | str | Sequence[TaskId | str],
        timeout_s: float | None = 3600.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        self.instance = instance
        self.tasks = tasks

    def execute(self, context: Context) -> Any:
        tasks = parse_tasks(self.tasks)
        view = self.hook.read(self.application_id)
        status = view.statuses.get(self.instance)
        if status is None or not status.state.alive:
            raise InstanceError(
                f"Instance {self.instance!r} of {self.application_id!r} is not alive "
                f"({status.state.value if status else 'no heartbeat'}): deploy it before a replay."
            )
        held = {task.task for task in status.tasks}
        if missing := sorted(set(tasks) - held):
            raise AssignmentError(
                f"Instance {self.instance!r} holds no copy of task(s) {', '.join(map(str, missing))}, only of "
                f"{', '.join(map(str, sorted(held))) or 'none'}: correct the tasks, or assign it the tasks first."
            )
        mapped = context["ti"].map_index
        replay = Command(
            id=f"replay/{context['run_id']}/{self.task_id}/{mapped}/{status.incarnation}",
            kind=CommandKind.REPLAY,
            instance=self.instance,
            incarnation=status.incarnation,
            tasks=tasks,
        )
        if replay.id not in (*view.commands.get(self.instance, {}), *status.last_commands):
            self.hook.write(self.application_id, replay)
        return self.wait_for(TasksReplayed(self.instance, replay.id, tasks))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            restored: dict[str, Any] = super().execute_complete(context, event)
        except StatefulStreamsError as error:
            self._note(context, (), reason=str(error))
            raise
        figures = (restored[name] for name in ("restored_records", "restored_bytes", "restore_s"))
        self._note(context, restores_of(self.instance, *figures))
        return restored

    def _note(self, context: Context, restores: Sequence[TaskRestore], reason: str | None = None) -> None:
        record = restore_record(
            self.application_id,
            self.task_of_run(context),
            str(context["run_id"]),
            self.instance,
            parse_tasks(self.tasks),
            ended_at_ms=now_ms(),
            restores=restores,
            reason=reason,
        )
        self.note_history([record])


class StandbyCommandOperator(ControlOperator):
    """Gives each instance that holds such a standby one command, and waits for all. Each try asks again.

    Args:
        instances: only the standbys of these; None for all that run.
        tasks: only these, such as ``0_3``; None for all.
        timeout_s: how long it may take, in seconds.

    Returns:
        By instance and task, the changelog offset at which it was done.

    Raises:
        InstanceError: no such instance holds such a standby, or one refuses, ended or was replaced.
        DeadlineError: it was not done in time.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instances", "tasks")
    kind: ClassVar[CommandKind]

    def __init__(
        self,
        *,
        application_id: str,
        instances: Sequence[str] | str | None = None,
        tasks: Sequence[str] | str | None = None,
        timeout_s: float | str | None = 600.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        self.instances = instances
        self.tasks = tasks

    def execute(self, context: Context) -> Any:
        named, tasks = parse_optional(self.instances), parse_optional(self.tasks)
        view = self.hook.read(self.application_id)
        commands = standby_commands(
            view,
            self.kind,
            f"{self.task_of_run(context)}/{now_ms()}",
            None if named is None else parse_names("instances", named),
            () if tasks is None else parse_tasks(tasks),
        )
        self.hook.write(self.application_id, *commands)
        return self.wait_for(done(view, commands))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, dict[str, int]]:
        results = super().execute_complete(context, event)["results"]
        return {result["instance"]: result["positions"] for result in self.checked(results)}

    def checked(self, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The results, where none of them is a failure of what was asked for."""
        return results


class CertifyStandbysOperator(StandbyCommandOperator):
    """Has instances compare the stores of their standbys with what their actives held, by its digest, and waits.

    A standby compares what it holds at the end of its changelog with the digest in its active's last commit record,
    whether a comparison is due or not; the active is not touched. One whose active's digest is not known waits for a
    commit that has it.

    Args:
        kwargs: see `StandbyCommandOperator`; as to `timeout_s`, each instance reads one whole store after the other.

    Returns:
        By instance and task, the changelog offset at which its store held the same as its active's.

    Raises:
        InstanceError: a store held something else, so it was moved aside and is restored from its changelog; or as for
            `StandbyCommandOperator`, like all other errors.
    """

    kind = CommandKind.CERTIFY

    def checked(self, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The results, where no store held something else."""
        lines = [
            f"task {task} on {result['instance']}: {what}"
            for result in results
            for task, what in result["diverged"].items()
        ]
        if lines:
            raise InstanceError(
                f"{len(lines)} standby(s) of {self.application_id!r} did not hold what their actives did. "
                f"{'; '.join(lines)}. The runbook says what to look at."
            )
        return results


class SnapshotStandbysOperator(StandbyCommandOperator):
    """Has instances copy the stores of their standbys to the place that the job's ``snapshots()`` names, and waits.

    They are taken whether they are due or not, but only of a store that is at the end of its changelog and, where its
    active's digest is known, certified.

    Args:
        kwargs: see `StandbyCommandOperator`.

    Returns:
        By instance and task, the changelog offset of its snapshot.

    Raises:
        InstanceError: one could not send its copy; or as for `StandbyCommandOperator`, like all other errors.
    """

    kind = CommandKind.SNAPSHOT
