"""What can be waited for of snapshots."""

from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import SnapshotStatus
from airflow_provider.control.topics.liveness import Liveness
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Outcome
from airflow_provider.control.waiting.messages import end_of, task_list
from airflow_provider.control.waiting.observation import Observation

__all__ = ["SnapshotsTaken"]


class SnapshotsTaken(Condition, frozen=True):
    """An instance has copied the stores of some of its standbys elsewhere, as a command asked.

    Args:
        instance: its name.
        command: the command's id.
        before: by task, its last snapshot before the command.
    """

    instance: str
    command: str
    before: dict[TaskId, SnapshotStatus]

    def __str__(self) -> str:
        """What is waited for."""
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
        if waiting:
            return Evaluation(Outcome.WAITING, "; ".join(waiting))
        return Evaluation(Outcome.MET, "all are taken", {"instance": self.instance, "positions": positions})
