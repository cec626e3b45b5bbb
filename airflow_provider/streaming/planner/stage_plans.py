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
    job.checked()
    assert job.source_topic is not None
    assert job.key is not None
    assert job.operation is not None
    plan = StagePlan(
        number=0,
        name=job.store,
        source_topic=job.source_topic,
        schema=job.schema,
        steps=job.steps,
        key=job.key,
        trust_partitioning=job.trust_partitioning,
        operation=job.operation,
        store=job.store,
        output_topic=job.sink_topic,
    )
    return (plan,)
