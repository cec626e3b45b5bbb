"""What can be waited for of a drill's fault."""

from __future__ import annotations

from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.conditions.evaluation import Condition, Evaluation, Outcome
from airflow_provider.control.conditions.messages import instance_line
from airflow_provider.control.instance_handle import InstanceHandle
from airflow_provider.control.liveness import Liveness
from airflow_provider.control.observation import Observation
from airflow_provider.control.status import InstanceStatus

__all__ = ["FaultTaken"]


class FaultTaken(Condition, frozen=True, kw_only=True):
    """An instance has done to itself what a drill asked, or its process is gone.

    Args:
        instance: its name.
        incarnation: the process.
        command: the id of the fault's command.
        ends_process: whether the process has to be gone, and cannot report that it was asked.
    """

    instance: str
    incarnation: int
    command: str
    ends_process: bool = False

    def __str__(self) -> str:
        """What is waited for."""
        return f"instance {self.instance} to inject {self.command} into itself"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when the instance refuses."""
        status = seen.view.statuses.get(self.instance)
        if status is None or status.incarnation < self.incarnation:
            return Evaluation(Outcome.WAITING, "it has sent no heartbeat yet")
        if status.incarnation > self.incarnation or seen.liveness(status) is not Liveness.ALIVE:
            return Evaluation(Outcome.MET, f"incarnation {self.incarnation} is gone", _handle(status))
        if (why := status.refusals.get(self.command)) is not None:
            return Evaluation(Outcome.FAILED, f"{self.instance} refuses: {why}")
        if self.command in status.last_commands and not self.ends_process:
            return Evaluation(Outcome.MET, f"{self.instance} has begun it", _handle(status))
        return Evaluation(Outcome.WAITING, instance_line(status))


def _handle(status: InstanceStatus) -> dict[str, object]:
    plain: dict[str, object] = to_plain(InstanceHandle.of(status))
    return plain
