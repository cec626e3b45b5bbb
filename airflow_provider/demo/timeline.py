"""What the failover cost, from the control topics and from the outputs' time stamps by the broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.report import FailoverReport
from airflow_provider.demo.results import OutputTimes


@dataclass(frozen=True)
class Timeline:
    """One failover, in epoch ms of this machine's one clock; None where it is not known.

    Args:
        killed_ms: the SIGKILL.
        detected_ms: the watcher saw it.
        decided_ms: the next assignment was published.
        promoted_ms: the last of the tasks was owned by its new instance.
        first_output_ms: the first of the tasks had committed output again.
        all_outputs_ms: all of the tasks had.
        restored_ms: every task had a warm standby again.
        replayed: changelog records that the new owner had to apply before it went on.
        tasks: the tasks that were taken over.
    """

    killed_ms: int
    detected_ms: int | None
    decided_ms: int | None
    promoted_ms: int | None
    first_output_ms: int | None
    all_outputs_ms: int | None
    restored_ms: int | None
    replayed: int | None
    tasks: tuple[TaskId, ...]

    @property
    def rto_s(self) -> float | None:
        """From the kill until every task of the killed instance had committed output again."""
        return self.since_kill_s(self.all_outputs_ms)

    def since_kill_s(self, at_ms: int | None) -> float | None:
        """Seconds after the kill."""
        return None if at_ms is None else (at_ms - self.killed_ms) / 1000

    def steps(self) -> tuple[tuple[str, float | None], ...]:
        """Each step's name, and its seconds after the kill."""
        return tuple(
            (name, self.since_kill_s(at_ms))
            for name, at_ms in (
                ("killed", self.killed_ms),
                ("detected", self.detected_ms),
                ("decided", self.decided_ms),
                ("promoted", self.promoted_ms),
                ("first committed output", self.first_output_ms),
                ("output of all its tasks", self.all_outputs_ms),
                ("redundancy restored", self.restored_ms),
            )
        )

    @classmethod
    def of(cls, killed_ms: int, tasks: Sequence[TaskId], report: FailoverReport | None, times: OutputTimes) -> Timeline:
        """Put the sources together.

        The sink's partition *i* holds the output of task ``0_i``: both topics have the same partitions and keys. What
        was stored there after the decision is the new owner's. The broker's stamp is that of the record, not of its
        commit, which the new owner reports for the last of its tasks, those of later stages among them; so that one
        may move the end, never shorten it.

        Args:
            killed_ms: the SIGKILL.
            tasks: the tasks that the killed instance processed.
            report: the failover's report; None when the failure was not answered.
            times: by partition of stage 0's sink, when the broker stored each output.
        """
        decided_ms = report.decided_at_ms if report else None
        first: list[int | None] = [
            next((at for at in times.get(task.partition, ()) if decided_ms is not None and at >= decided_ms), None)
            for task in tasks
            if task.stage == 0
        ]
        known = [at for at in first if at is not None]
        reported = report.first_commit_at_ms if report else None
        return cls(
            killed_ms,
            report.detected_at_ms if report else None,
            decided_ms,
            report.owned_at_ms if report else None,
            min(known, default=None),
            max(*known, reported) if known and len(known) == len(first) and reported is not None else None,
            report.resolved_at_ms if report else None,
            report.restored_records if report else None,
            tuple(tasks),
        )
