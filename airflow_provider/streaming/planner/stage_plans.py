"""The stages of a job."""

from __future__ import annotations

from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.planner.stage_plan import StagePlan

__all__ = ["stage_plans"]


def stage_plans(job: StatefulJob) -> tuple[StagePlan, ...]:
    """What a job's stages read, do and write, in the order of their numbers.

    Args:
        job: as the user wrote it.

    Raises:
        ConfigurationError: a part of the job is missing, or names a column that there is not.
    """
    return job.checked().stages
