"""The restart of a living instance by a deploy task: what is the same however it is started again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.control.placement.moves import publish_hand_over
from airflow_provider.control.records.command import RESTART, Command, CommandKind
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.waiting.instance import await_shutdown
from airflow_provider.errors import InstanceError
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
