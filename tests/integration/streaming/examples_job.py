"""The examples of the docs as one application: what each file writes, and how it treats bad records, as it stands.

Arguments: the application id.
"""

import dataclasses
import runpy
import sys
from pathlib import Path

from airflow_provider.streaming import StatefulJob, run

FOLDER = Path(__file__).parents[3] / "docs" / "examples"


def example_of(file: str) -> StatefulJob:
    """The job of an example.

    Args:
        file: its name, without ``.py``.
    """
    job = runpy.run_path(str(FOLDER / f"{file}.py"))["job"]
    assert isinstance(job, StatefulJob)
    # All that the one application of all of them takes over.
    assert job == StatefulJob(job.application_id, *job.sinks, error_policy=job.error_policy)
    return job


def job_of(application_id: str) -> StatefulJob:
    """All of them as one job."""
    examples = [example_of(file.stem) for file in sorted(FOLDER.glob("*.py"))]
    (policy,) = {job.error_policy for job in examples if job.error_policy.topic is not None}
    job = StatefulJob(application_id, *(sink for example in examples for sink in example.sinks))
    return dataclasses.replace(job, error_policy=policy)


if __name__ == "__main__":
    run(job_of(sys.argv[1]))
