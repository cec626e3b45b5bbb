"""Deploying an instance that a supervisor keeps: Airflow asks, tells and waits, and starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider import __version__
from airflow_provider.common.clock import now_ms
from airflow_provider.control.history.builder import upgrade_record
from airflow_provider.control.placement.hand_over import publish_hand_over
from airflow_provider.control.records.command import RESTART, Command, CommandKind
from airflow_provider.control.records.history import HistoryKind
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.waiting.shutdown import await_shutdown
from airflow_provider.errors import ConfigurationError, InstanceError
from airflow_provider.launch.job_file import sha256_of
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.topics.view import ControlView


RESTARTING: Final = ("restart", "upgrade")
"""Of ``on_change``: those that restart an instance that was deployed otherwise."""

_STOP_S: Final = 60.0


def living_of(task: ControlOperator, instance: str, view: ControlView) -> InstanceStatus | None:
    """The newest status of an instance that lives; None where it does not."""
    from airflow_provider.launch.instance_start import living_instance

    return living_instance(view, instance, task.timeouts, lambda: task.hook.reader(task.application_id))


def report_of(
    task: ControlOperator, instance: str, living: InstanceStatus | None, changed: Sequence[str]
) -> dict[str, Any]:
    """What ``on_change="report"`` logs and returns."""
    task.log.info("%s; differs from what runs: %s", "It lives" if living else "It does not run", changed or "nothing")
    return {"instance": instance, "runs": living is not None, "changed": list(changed)}


def restart_id(task: ControlOperator, run_id: str) -> str:
    """How the ids of the commands begin by which a task of a run stops an instance: a retry knows its own."""
    return f"{RESTART}{run_id}/{task.task_id}/"


def stop_for_restart(task: ControlOperator, living: InstanceStatus, run_id: str) -> None:
    """Have an instance hand its tasks over and end with the status by which a supervisor starts it again.

    Args:
        task: of the run.
        living: the instance's newest status.

    Raises:
        InstanceError: it does not stop.
    """
    instance = living.instance
    task.publish_by(lambda publisher: publish_hand_over(publisher, instance, task.timeouts))
    stop = Command(
        id=f"{restart_id(task, run_id)}{living.incarnation}",
        kind=CommandKind.STOP,
        instance=instance,
        incarnation=living.incarnation,
    )
    task.hook.write(task.application_id, stop)
    with task.hook.reader(task.application_id) as reader:
        reader.read_to_end()
        await_shutdown(reader, instance, _STOP_S)
        status = reader.view.statuses.get(instance)
    if status is not None and status.incarnation == living.incarnation and status.state.alive:
        raise InstanceError(
            f"{instance!r} was asked to stop and did not within {_STOP_S:g} s: look at its log, try again."
        )


class SupervisedInstance:
    """The part of `DeployInstanceOperator` for an instance that another starts.

    Args:
        application: path of the job file; compared where it is on this worker, too.
        on_change: as of `DeployInstanceOperator`. What cannot be compared is restarted by ``"upgrade"``, so that its
            supervisor starts what its host has now.
    """

    def __init__(self, task: ControlOperator, instance: str, application: str | None, on_change: str) -> None:
        self._task, self._instance, self._on_change = task, instance, on_change
        self._sha256 = sha256_of(application) if application else ""
        self._file = application

    def report(self) -> dict[str, Any]:
        """Whether it lives, and what differs."""
        view = self._read()
        return report_of(self._task, self._instance, self._living(view), self._changed(view))

    def prepare(self, context: Context) -> int:
        """Ask it to end where it is to be restarted.

        Returns:
            The incarnation that is to be waited for, or a newer one.

        Raises:
            ConfigurationError: it runs another job file, and is to be left alone; or does so after its restart.
            InstanceError: it does not stop.
            AirflowSkipException: it was stopped on purpose, so there is nothing to upgrade.
        """
        view = self._read()
        living, known = self._living(view), view.statuses.get(self._instance)
        if living is None:
            if self._on_change == "upgrade" and _was_stopped(known, restart_id(self._task, str(context["run_id"]))):
                raise AirflowSkipException(f"{self._instance!r} does not run, so there is nothing to upgrade.")
            self._task.log.info(
                "%s is started by its supervisor, not by Airflow: waits until `stateful-streams run --supervised "
                "--instance %s` runs on its host",
                self._instance,
                self._instance,
            )
            return 0 if known is None else known.incarnation + 1
        changed = self._changed(view)
        if self._on_change in RESTARTING and not _began_in(context, living):
            unknown = self._on_change == "upgrade" and not self._sha256
            reasons = changed or (["what its host has now"] if unknown else [])
            if reasons:
                self._restart(context, living, reasons)
                return living.incarnation + 1
        self._judge(view)
        self._task.log.info("Attached to incarnation %d, which is %s", living.incarnation, living.state.value)
        return living.incarnation

    def check(self, context: Context) -> None:
        """Whether what its supervisor started is what was wanted; an upgrade ends here otherwise.

        Raises:
            ConfigurationError: it runs another job file than this worker has.
        """
        try:
            self._judge(self._read())
        except ConfigurationError as error:
            self._task.end_history(HistoryKind.UPGRADE, self._task.task_of_run(context), str(error))
            raise

    def _judge(self, view: ControlView) -> None:
        recorded = view.deployments.get(self._instance)
        if recorded is None:
            return
        if other := recorded.other_version(__version__):
            self._task.log.warning("%s runs otherwise: %s", self._instance, other)
        other = recorded.other_job(self._sha256)
        if other is None:
            return
        if self._on_change == "attach":
            self._task.log.warning("%s runs otherwise: %s", self._instance, other)
            return
        restarted = "Its supervisor has restarted it, and still" if self._on_change in RESTARTING else "It"
        raise ConfigurationError(
            f"{restarted} runs another job file: {other}. Bring {self._file!r} to the host of {self._instance!r}, then "
            "run the upgrade DAG, or let its supervisor restart it."
        )

    def _changed(self, view: ControlView) -> list[str]:
        recorded = view.deployments.get(self._instance)
        if recorded is None:
            return []
        found = (recorded.other_job(self._sha256), recorded.other_version(__version__))
        return [other for other in found if other is not None]

    def _restart(self, context: Context, living: InstanceStatus, why: list[str]) -> None:
        """Have it hand its tasks over and end with the status by which its supervisor starts it again."""
        task, run_id = self._task, str(context["run_id"])
        task.log.info("Asks it to end, so that its supervisor starts it again: %s", ", ".join(why))
        record = upgrade_record(
            task.application_id, task.task_of_run(context), run_id, self._instance, tuple(why), now_ms()
        )
        task.note_history([record])
        stop_for_restart(task, living, run_id)

    def _read(self) -> ControlView:
        return self._task.hook.read(self._task.application_id)

    def _living(self, view: ControlView) -> InstanceStatus | None:
        return living_of(self._task, self._instance, view)


def _was_stopped(status: InstanceStatus | None, own: str) -> bool:
    """Whether it never ran, or was stopped on purpose: by another than this task, of which this may be a retry."""
    if status is None:
        return True
    ours = any(id_.startswith(own) for id_ in status.last_commands)
    # A stop without a command is its supervisor's, which starts it again.
    return status.state is InstanceState.STOPPED and status.stop_hand_over is not None and not ours


def _began_in(context: Context, status: InstanceStatus) -> bool:
    """Whether a process was launched since the run began: then it has been restarted, and this is a retry."""
    run: Any = context.get("dag_run")
    began = getattr(run, "start_date", None)
    return began is not None and status.incarnation > began.timestamp() * 1000
