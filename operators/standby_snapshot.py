"""Has standbys' stores copied elsewhere now."""

from __future__ import annotations

from airflow_provider.control.command import CommandKind
from airflow_provider.operators.standby_command import StandbyCommandOperator

__all__ = ["SnapshotStandbysOperator"]


class SnapshotStandbysOperator(StandbyCommandOperator):
    """Has instances copy the stores of their standbys to the place that the job's ``snapshots()`` names, and waits.

    They are taken whether they are due or not, but only of a store that is at the end of its changelog and, where its
    active's digest is known, certified.

    Args:
        kwargs: see `StandbyCommandOperator`.

    Returns:
        By instance and task, the changelog offset of its snapshot.

    Raises:
        InstanceError: one could not send its copy; or as for `StandbyCommandOperator`, like all other errors.
    """

    kind = CommandKind.SNAPSHOT
