"""What can be waited for of comparisons of standbys with their actives."""

from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import CertificateStatus, Role, TaskStatus
from airflow_provider.control.topics.liveness import Liveness
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Outcome
from airflow_provider.control.waiting.messages import copy_line, end_of, task_list
from airflow_provider.control.waiting.observation import Observation

__all__ = ["StandbysCompared"]


class StandbysCompared(Condition, frozen=True):
    """An instance has compared some of its standbys' stores with what their actives' held, as a command asked.

    It is met whatever the comparisons found. The result has ``positions`` (by task, where its store held the same) and
    ``diverged`` (by task, what was found, of one that held something else: it is restored from its changelog).

    Args:
        instance: its name.
        incarnation: the process that was asked.
        command: the command's id.
        before: by task, what was known before the command.
    """

    instance: str
    incarnation: int
    command: str
    before: dict[TaskId, CertificateStatus]

    def __str__(self) -> str:
        """What is waited for."""
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
                diverged[str(task_id)] = _difference(task)
            else:
                positions[str(task_id)] = now.position
        if waiting:
            return Evaluation(Outcome.WAITING, "; ".join(waiting))
        result = {"instance": self.instance, "positions": positions, "diverged": diverged}
        return Evaluation(Outcome.MET, f"{len(positions)} hold the same, {len(diverged)} do not", result)


def _difference(task: TaskStatus) -> str:
    # The error leaves the status as soon as the store is restored.
    return task.error or "it held something else than its active's store; it was moved aside and restored"
