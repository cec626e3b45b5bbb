"""Assigns an application's tasks to its instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_provider.bases.arguments import parse_flag, parse_if_given, parse_names, parse_whole
from airflow_provider.control.placement.task_placement import TaskPlacement, place_tasks
from airflow_provider.control.waiting.conditions import StandbysWarm
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.topics.publisher import AssignmentPublisher


class AssignTasksOperator(ControlOperator):
    """Publishes the assignment that the living instances allow: the first one, or every task's standbys again.

    Sticky: what an instance has it keeps. With nothing to change, nothing is published. Copies of a task are kept on
    different hosts where there are several; where that cannot be, the log and the result say so.

    With `balance` it goes on, deferred, until the load is even: an instance with less gets further standbys, tasks move
    onto them once they are warm, then the copies that are too many go. A task has no fewer warm copies on the way, and
    pauses only while it moves. Ended in between, it goes on where it was when it runs again.

    Args:
        instances: who may have tasks, also one that is started later, of which the log warns; None takes every running
            instance, and takes nothing from one that is silent just now: whether that is gone, the failover's watcher
            finds out.
        num_standby_replicas: wanted standbys per task; fewer where there are not enough instances.
        store: of a job that was not described, by whose changelog the tasks are counted before the first assignment.
        balance: also even out the load, and wait until that is done, each step for ``timeout_s`` at most.
        reason: kept with the generation, for people.
        kwargs: see `ControlOperator`.

    Returns:
        ``generation``, whether the last step ``changed`` anything, by task its ``active`` and ``standbys``, and
        ``on_one_host``: by task the host that has all of its copies, and ``not_running``: by instance that was named
        and has tasks although it does not run, why.

    Raises:
        InstanceError: with `balance`, a task failed.
        DeadlineError: with `balance`, copies were not warm in time; says which.
        AssignmentError: no instance runs.
        ConfigurationError: an argument is not what it has to be.
        FencedError: other publishers took over again and again.
        TopicMissingError: the application's topics do not exist.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields, "instances", "num_standby_replicas", "store", "balance", "reason"
    )  # fmt: skip

    def __init__(
        self,
        *,
        application_id: str,
        instances: Sequence[str] | str | None = None,
        num_standby_replicas: int = 1,
        store: str = "state",
        balance: bool | str = False,
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
        answer = self.publish_by(self._publish)
        return self._wait_until_warm(answer) if parse_flag("balance", self.balance) else answer

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Publish the next step towards an even load, until there is none.

        Raises:
            InstanceError: a task failed.
            DeadlineError: copies were not warm in time.
        """
        super().execute_complete(context, event)
        answer = self.publish_by(self._publish)
        return self._wait_until_warm(answer) if answer["changed"] else answer

    def _wait_until_warm(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        generation = answer["generation"]
        warm = StandbysWarm(num_standby_replicas=None, generation=generation)
        last: dict[str, Any] = self.wait_for(warm, step=f"generation {generation}")
        return last

    def _publish(self, publisher: AssignmentPublisher) -> dict[str, Any]:
        wanted = TaskPlacement(
            instances=parse_if_given(parse_names, "instances", self.instances),
            num_standby_replicas=parse_whole("num_standby_replicas", self.num_standby_replicas),
            balance=parse_flag("balance", self.balance),
            reason=self.reason,
        )
        placed = place_tasks(publisher, wanted, lambda: self.hook.tasks(self.application_id, self.store), self.timeouts)
        if placed.changed:
            self.log.info("Published generation %d", placed.assignment.generation)
        else:
            self.log.info("Generation %d needs no change", placed.assignment.generation)
        for warning in placed.warnings:
            self.log.warning("%s", warning)
        return placed.to_plain()
