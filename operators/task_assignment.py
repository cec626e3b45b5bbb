"""Assigns an application's tasks to its instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_provider.control.assignment import Assignment, TaskAssignment
from airflow_provider.control.assignor import assign
from airflow_provider.control.status import InstanceState
from airflow_provider.errors import AssignmentError
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.publisher import AssignmentPublisher
    from airflow_provider.control.view import ControlView

__all__ = ["AssignTasksOperator"]


class AssignTasksOperator(ControlOperator):
    """Publishes the assignment that the living instances allow: the first one, or every task's standbys again.

    Sticky: what an instance has it keeps. With nothing to change, nothing is published.

    Args:
        application_id: the application.
        instances: who may get tasks; None takes every running instance.
        num_standby_replicas: wanted standbys a task; fewer where there are not enough instances.
        store: the store by whose changelog the tasks are counted before the first assignment.
        balance: also move active tasks onto warm standbys where that evens out the load. Each move is a short pause.
        reason: kept with the generation, for people.
        kwargs: see `ControlOperator`.

    Returns:
        ``generation``, ``changed``, and by task its ``active`` and ``standbys``.

    Raises:
        AssignmentError: no instance runs.
        FencedError: other publishers took over again and again.
        TopicMissingError: the application's topics do not exist.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields, "instances", "num_standby_replicas", "store", "reason"
    )  # fmt: skip

    def __init__(
        self,
        *,
        application_id: str,
        instances: Sequence[str] | None = None,
        num_standby_replicas: int = 1,
        store: str = "state",
        balance: bool = False,
        reason: str = "assigned by {{ run_id }}",
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.instances = instances
        self.num_standby_replicas = num_standby_replicas
        self.store = store
        self.balance = balance
        self.reason = reason

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish, or find that nothing has to change."""
        return self.publish_by(self._publish)

    def _publish(self, publisher: AssignmentPublisher) -> dict[str, Any]:
        view = publisher.view
        previous = view.assignment or Assignment.empty(
            self.application_id, self.hook.number_of_tasks(self.application_id, self.store)
        )
        wanted = assign(
            previous,
            self._instances(view),
            int(self.num_standby_replicas),
            view.warm() if self.balance else frozenset(),
        )
        if _places(wanted) == _places(previous.tasks):
            self.log.info("Generation %d is as it should be", previous.generation)
            return _told(previous, changed=False)
        following = previous.next(wanted, self.reason)
        publisher.publish(following)
        self.log.info("Published generation %d", following.generation)
        return _told(following, changed=True)

    def _instances(self, view: ControlView) -> Sequence[str]:
        if self.instances is not None:
            return list(self.instances)
        healthy = view.healthy(float(self.instance_timeout_s))
        running = [name for name in healthy if view.statuses[name].state is InstanceState.RUNNING]
        if not running:
            known = ", ".join(f"{n}: {s.state.value}" for n, s in sorted(view.statuses.items())) or "none"
            raise AssignmentError(
                f"No instance of {self.application_id!r} runs (known: {known}): deploy one, or name 'instances'."
            )
        return running


def _places(tasks: Sequence[TaskAssignment]) -> list[tuple[str | None, tuple[str, ...]]]:
    return [(task.active, task.standbys) for task in tasks]


def _told(assignment: Assignment, changed: bool) -> dict[str, Any]:
    return {
        "generation": assignment.generation,
        "changed": changed,
        "tasks": {
            str(i): {"active": task.active, "standbys": list(task.standbys)} for i, task in enumerate(assignment.tasks)
        },
    }
