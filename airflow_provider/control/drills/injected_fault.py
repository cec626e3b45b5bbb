"""A fault that a drill injected, noted before it is done."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.kind import DRILLS, DrillKind, DrillSpec
from airflow_provider.control.drills.output_cut import OutputCut

__all__ = ["InjectedFault"]


@dataclass(frozen=True, kw_only=True)
class InjectedFault:
    """What was the case when a fault was injected. Crosses between Airflow tasks as plain values.

    Kept in ``<app>-assignment`` under ``fault/<id>``, written in one transaction with the commands to the instances:
    where it stands, the fault was injected, and is never injected again.

    Args:
        id: of the fault and of its command: the same for every try of the same Airflow task in the same run.
        kind: of the drill.
        instance: the instance that was made to fail.
        incarnation: its process.
        generation: of the newest assignment.
        tasks: those that are hit: the instance's active tasks, or the one whose store is.
        copies: by name, the processes of the instances whose standby copies of the tasks are hit too.
        source_offsets: by task, the next input offset as last reported.
        positions: by task, the changelog offset up to which its active's store was applied, as last reported.
        certified: whether every standby's store had been found to hold what its active's did.
        injected_at_ms: epoch ms.
        predicted_rto_ms: what the failover was predicted to take; None where nothing was predicted.
        outputs: what had been written just before; None where outputs are not to be counted.
    """

    id: str
    kind: DrillKind = DrillKind.CRASH
    instance: str
    incarnation: int
    generation: int
    tasks: tuple[TaskId, ...]
    source_offsets: dict[TaskId, int]
    injected_at_ms: int
    predicted_rto_ms: int | None = None
    copies: dict[str, int] = field(default_factory=dict)
    positions: dict[TaskId, int] = field(default_factory=dict)
    certified: bool = False
    outputs: OutputCut | None = None

    @property
    def spec(self) -> DrillSpec:
        """The row of its kind."""
        return DRILLS[self.kind]

    @property
    def processes(self) -> dict[str, int]:
        """By name, the processes of all instances that are hit."""
        return {self.instance: self.incarnation, **self.copies}
