"""Has standbys' stores compared with their actives' now."""

from __future__ import annotations

from typing import Any

from airflow_provider.control.command import CommandKind
from airflow_provider.errors import InstanceError
from airflow_provider.operators.standby_command import StandbyCommandOperator

__all__ = ["CertifyStandbysOperator"]


class CertifyStandbysOperator(StandbyCommandOperator):
    """Has instances compare the stores of their standbys with what their actives held, by its digest, and waits.

    A standby compares what it holds at the end of its changelog with the digest in its active's last commit record,
    whether a comparison is due or not; the active is not touched. One whose active's digest is not known waits for a
    commit that has it.

    Args:
        kwargs: see `StandbyCommandOperator`; as to `timeout_s`, each instance reads one whole store after the other.

    Returns:
        By instance and task, the changelog offset at which its store held the same as its active's.

    Raises:
        InstanceError: a store held something else, so it was moved aside and is restored from its changelog; or as for
            `StandbyCommandOperator`, like all other errors.
    """

    kind = CommandKind.CERTIFY

    def checked(self, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The results, where no store held something else."""
        lines = [
            f"task {task} on {result['instance']}: {what}"
            for result in results
            for task, what in result["diverged"].items()
        ]
        if lines:
            raise InstanceError(
                f"{len(lines)} standby(s) of {self.application_id!r} did not hold what their actives did. "
                f"{'; '.join(lines)}. The runbook says what to look at."
            )
        return results
