"""What a job file says of its job, asked of the file itself: in a process of its own, without Spark and Kafka."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from airflow_provider.common.json_codec import from_json
from airflow_provider.control.job_description import JobDescription
from airflow_provider.errors import ConfigurationError, DeadlineError
from airflow_provider.launch.job_file import application_ids_of
from airflow_provider.launch.last_error import last_error

__all__ = ["DESCRIBE_VARIABLE", "describe_job_file", "print_of_job_file"]

DESCRIBE_VARIABLE: Final = "STATEFUL_STREAMS_DESCRIBE"
"""Environment variable that makes `run` print what its job is made of: ``text``, ``mermaid`` or ``json``."""

_TIMEOUT_S: Final = 120.0


def describe_job_file(
    path: str,
    application_id: str | None = None,
    *,
    application_args: Sequence[str] = (),
    env_vars: Mapping[str, str] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> JobDescription:
    """What a job file's job is made of.

    Args:
        path: of the file, on this host.
        application_id: that the job has to have; None takes any.
        application_args: of the file.
        env_vars: environment of the job; with ``PYSPARK_PYTHON``, that Python runs the file.
        timeout_s: how long it may take, in seconds.

    Raises:
        ConfigurationError: there is no such file, it does not describe a job, or one of another application.
        DeadlineError: it took too long.
    """
    printed = print_of_job_file(path, "json", application_args=application_args, env_vars=env_vars, timeout_s=timeout_s)
    last = printed.strip().rpartition("\n")[2]
    try:
        found = from_json(last, JobDescription)
    except msgspec.DecodeError as error:
        raise ConfigurationError(
            f"The job file {path!r} printed {last[:200]!r} where its job was asked for ({error}): let it end with "
            'run(job) below if __name__ == "__main__", and install the same version of the provider for it as here.'
        ) from error
    if application_id not in (None, found.application_id):
        raise ConfigurationError(
            f"{path} is the job of {found.application_id!r}, and application_id is {application_id!r}: name the same "
            "in both."
        )
    return found


def print_of_job_file(
    path: str,
    format: str,
    *,
    application_args: Sequence[str] = (),
    env_vars: Mapping[str, str] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> str:
    """What a job file prints when its job is asked for; the arguments are those of `describe_job_file`.

    Args:
        path: of the file, on this host.
        format: ``text``, ``mermaid`` or ``json``.
        application_args: of the file.
        env_vars: environment of the job.
        timeout_s: how long it may take, in seconds.

    Raises:
        ConfigurationError: there is no such file, or it ended with an error.
        DeadlineError: it took too long.
    """
    application_ids_of(path)  # a file that is not there, or does not compile, says so better here
    given = env_vars or {}
    try:
        ran = subprocess.run(
            [given.get("PYSPARK_PYTHON") or sys.executable, path, *application_args],
            env=os.environ | given | {DESCRIBE_VARIABLE: format},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DeadlineError(
            f"The job file {path!r} did not say what its job is within {timeout_s:g} s: let it make the job without "
            'waiting for anything, and run it below if __name__ == "__main__".'
        ) from error
    except OSError as error:
        raise ConfigurationError(f"The job file {path!r} cannot be run ({error}): correct PYSPARK_PYTHON.") from error
    if ran.returncode != 0 or not ran.stdout.strip():
        why = last_error(ran.stderr) or f"status {ran.returncode}, and nothing was printed"
        raise ConfigurationError(
            f"The job file {path!r} does not say what its job is: {why}. Run it with {DESCRIBE_VARIABLE}=text to see "
            "all that it prints."
        )
    return ran.stdout
