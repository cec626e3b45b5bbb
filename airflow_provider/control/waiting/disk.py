"""What can be waited for of instances' disks."""

from __future__ import annotations

from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Outcome
from airflow_provider.control.waiting.observation import Observation

__all__ = ["DiskSpaceFree"]

_MIB = 1 << 20


class DiskSpaceFree(Condition, frozen=True, kw_only=True):
    """The disks of instances have room, where they keep their stores.

    Args:
        min_free_bytes: how much each must have left.
        instances: which; None for all that are assigned.
    """

    min_free_bytes: int
    instances: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """What is waited for."""
        which = "every instance" if self.instances is None else ", ".join(self.instances)
        return f"{which} to have {self.min_free_bytes / _MIB:,.0f} MiB of disk left"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Waits for ever: room can be made. What an instance said before it ended or fell silent does not count."""
        assignment = seen.view.assignment
        if self.instances is None and assignment is None:
            return Evaluation(Outcome.WAITING, "nothing is assigned yet")
        names = self.instances if assignment is None or self.instances is not None else assignment.instances
        free, waiting = {}, []
        for name in names or ():
            status = seen.living(name)
            if status is None:
                waiting.append(f"{name} is not alive")
            elif status.disk.free_bytes is None:
                waiting.append(f"{name} has not measured its disk yet")
            else:
                free[name] = status.disk.free_bytes
                if free[name] < self.min_free_bytes:
                    where = f"at {status.disk.folder} on {status.stores_host}"
                    waiting.append(f"{name} has {free[name] / _MIB:,.0f} MiB left {where}")
        if waiting:
            return Evaluation(Outcome.WAITING, "; ".join(waiting))
        return Evaluation(Outcome.MET, "all have room", {"free_bytes": free})
