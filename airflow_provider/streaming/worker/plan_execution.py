"""Makes a slot's tasks what the newest plan says: who is opened, promoted, demoted, fenced."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from airflow_provider.control.records.status import Role, TaskState
from airflow_provider.streaming.worker.kafka_clients import RestoreConsumer
from airflow_provider.streaming.worker.plan import TaskPlan
from airflow_provider.streaming.worker.standby_duties import StandbyDuties
from airflow_provider.streaming.worker.task import Task
from airflow_provider.streaming.worker.task_registry import TaskRegistry

__all__ = ["PlanExecution"]

_FENCE_AGAIN_S = 5.0
_LOOK_S = 1.0
"""After which a plan is looked at again that was carried out: the files of a store may be gone meanwhile."""


class PlanExecution:
    """Takes steps 1 and 2 of a promotion (`Task`), and the demotions.

    Args:
        registry: opens and closes the tasks.
        reader: of their changelogs.
        duties: of the standbys; they end where one is promoted.
    """

    def __init__(self, registry: TaskRegistry, reader: RestoreConsumer, duties: StandbyDuties) -> None:
        self._registry, self._reader, self._duties = registry, reader, duties
        self._applied: tuple[int | None, float] = (None, 0.0)

    def apply_plan(self, plans: Sequence[TaskPlan], number: int | None = None) -> None:
        """Hold what the plans name, in its roles, and nothing else.

        Where they were carried out there is nothing to do: a batch does not pay for what a promotion needs.

        Args:
            plans: one per task; the newest is the truth, whatever was held before.
            number: of the plans (`SlotPlan.number`).
        """
        now, (applied, at) = time.monotonic(), self._applied
        if number is not None and number == applied and now - at < _LOOK_S and self._registry.settled:
            return
        self._applied = None, 0.0  # until all of it is done
        self._registry.begin_call(plans)
        for plan in plans:
            with self._registry.isolating(plan.task):
                task = self._registry.open(plan)
                if task is not None:
                    self._change_role(task, plan)
        for task in self._registry.tasks.values():
            if task.fenced_for_s > _FENCE_AGAIN_S:
                # The one that fenced it was outdated: by now a newer assignment would have come.
                task.promote(task.plan)
        self._fence([task for task in self._registry.tasks.values() if task.state is TaskState.OWNING])
        self._applied = number, now

    def _change_role(self, task: Task, plan: TaskPlan) -> None:
        """A newer generation is a further try for a task that failed, of whichever role; so is time (`FailedTasks`)."""
        again, due = task.state is TaskState.FAILED, self._registry.is_tried_again(task, plan)
        same = plan.same_ownership(task.plan) and not due
        if same or (plan.role is task.plan.role is Role.STANDBY and not again):
            task.plan = plan
        elif plan.role is Role.ACTIVE:
            task.promote(plan, renew_digest=self._duties.end(task.id))
        else:
            task.demote(plan)
            self._reader.remove(task.changelog_partition)  # it is read again from where the store stands

    def own_again(self, task: Task) -> None:
        """Fence for an owner that has given its producer up, without waiting for the next plan."""
        self._fence([task])

    def _fence(self, tasks: Sequence[Task]) -> None:
        """For several tasks at once: each waits for the brokers to abort what a dead owner left open."""
        if not tasks:
            return
        with ThreadPoolExecutor(len(tasks)) as pool:
            fenced = [(task, pool.submit(task.fence)) for task in tasks]
        for task, done in fenced:
            with self._registry.isolating(task.id):
                done.result()
                # It is read again, up to the end that is the last from now on.
                self._reader.remove(task.changelog_partition)
