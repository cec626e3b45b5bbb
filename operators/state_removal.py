"""Removes the stores that an instance has on its host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import Context

from airflow_provider.common.host_name import host_name
from airflow_provider.control.placement import Placement, parse_placement
from airflow_provider.control.status import InstanceStatus
from airflow_provider.errors import InstanceError
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.reset_interlock import is_confirmed, living_instances

__all__ = ["RemoveStateOperator"]


class RemoveStateOperator(ControlOperator):
    """Removes an application's stores from an instance's state folder, on the host on which this task runs.

    For a reset: the changelog restores what is removed while that is there. It acts only where `confirm` is the
    application's id, and refuses while the instance lives. What lies in the application's folder and is not its own
    stays, and is named in the log.

    Args:
        application_id: the application.
        instance: the instance's name.
        state_dir: its state folder, as it was given to `DeployInstanceOperator`.
        confirm: the application's id, typed by a person; empty removes nothing.
        placement: of the instance. The stores of one that a supervisor keeps are on a host without a worker, and those
            of one on a Spark cluster on an executor's: what lies there is named, and left to a person.
        kwargs: see `ControlOperator`.

    Returns:
        The ``folder``, the ``tasks`` whose stores lay there, and whether they were ``removed``.

    Raises:
        InstanceError: the instance lives, or may be starting.
        ConfigurationError: `confirm` is something else.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance", "state_dir", "confirm", "placement")

    def __init__(
        self,
        *,
        application_id: str,
        instance: str,
        state_dir: str,
        confirm: str | None = None,
        placement: str = Placement.WORKER.value,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.instance = instance
        self.state_dir = state_dir
        self.confirm = confirm
        self.placement = placement

    def execute(self, context: Context) -> dict[str, Any]:
        """Look, and remove."""
        from airflow_provider.state.directory import StateDirectory

        confirmed = is_confirmed(self.application_id, self.confirm)
        view, living = living_instances(self.hook, self.application_id, self.timeouts)
        if self.instance in living:
            raise InstanceError(
                f"{self.instance} of {self.application_id!r} lives, so its stores were not removed: stop it first."
            )
        status = view.statuses.get(self.instance)
        if parse_placement(self.placement) is Placement.SUPERVISED:
            return self._leave_to_a_person(status, "is kept by a supervisor")
        if status is not None and status.disk.host not in ("", host_name()):
            return self._leave_to_a_person(status, "had its stores on another host than this worker")
        directory = StateDirectory(Path(self.state_dir).expanduser(), self.application_id)
        tasks = [str(task) for task in directory.tasks()]
        self.log.info("%s holds the stores of %s", directory.path, ", ".join(tasks) or "no task")
        if confirmed and (left := directory.clear()):
            self.log.warning("Not this application's, so they stay: %s", ", ".join(map(str, left)))
        return {"folder": str(directory.path), "tasks": tasks, "removed": confirmed}

    def _leave_to_a_person(self, status: InstanceStatus | None, why: str) -> dict[str, Any]:
        folder = (status.disk.folder if status else "") or self.state_dir
        self.log.warning(
            "%s %s: remove %s/%s on %s yourself, or leave it: its stores are of changelogs that "
            "are gone, so they are set aside and restored afresh.",
            self.instance,
            why,
            folder,
            self.application_id,
            (status.stores_host if status else "") or "its host",
        )
        return {"folder": f"{folder}/{self.application_id}", "tasks": [], "removed": False}
