"""What Spark says against a job's steps, in one line for its author."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.language.operation_text import step_text
from airflow_provider.streaming.steps import Step

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

__all__ = ["said_by_spark", "step_refusal"]

_LISTED: Final = re.compile(r"\[(`[^\]]*`)\]")
"""The columns that Spark proposes."""


def step_refusal(application_id: str, topic: str, step: Step, error: PySparkException) -> ConfigurationError:
    """The error for a step that Spark does not take.

    Args:
        application_id: of the job.
        topic: whose rows the step is for.
        step: with its expression.
        error: of Spark.
    """
    return ConfigurationError(
        f"Spark refuses a step of job {application_id!r} for the rows of {topic!r}, {step_text(step)}: "
        f"{said_by_spark(error)} Correct its expression, or the schema."
    )


def said_by_spark(error: PySparkException) -> str:
    """The first line of what Spark says, without the columns that no job can name."""
    first = str(error).strip().splitlines()[0]
    return _LISTED.sub(lambda found: f"[{', '.join(_of_the_job(found[1]))}]", first)


def _of_the_job(listed: str) -> list[str]:
    return [name for name in listed.split(", ") if not name.startswith("`__")]
