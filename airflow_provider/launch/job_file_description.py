"""What a job file says of its job, asked of the file itself: in a process of its own, without Spark and Kafka."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from airflow_provider import errors
from airflow_provider.common.json_codec import from_json
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.errors import ConfigurationError, DeadlineError
from airflow_provider.launch.job_file import application_ids_of, calls_run, has_pyspark_functions
from airflow_provider.launch.last_error import LastError, last_error

DESCRIBE_VARIABLE: Final = "STATEFUL_STREAMS_DESCRIBE"
"""Environment variable that makes `run` print what its job is made of: ``text``, ``mermaid`` or ``json``."""

_TIMEOUT_S: Final = 120.0
_RUN_IT: Final = 'Let it end with two lines: if __name__ == "__main__": and below it, indented, run(job).'
_OF_PYSPARK: Final = (
    "These need a Spark that runs: for aggregates write 'from airflow_provider.streaming import functions as F', and "
    'give conditions and expressions as text, such as filter("amount > 0", name="free").'
)
_NO_SESSION: Final = "[SESSION_OR_CONTEXT_NOT_EXISTS]"
"""Of pyspark, where its functions are called before Spark is there."""


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
    last = _printed(path, application_args, env_vars or {}, timeout_s).strip().rpartition("\n")[2]
    try:
        found = from_json(last, JobDescription)
    except msgspec.DecodeError as error:
        printed = f"printed {last[:200]!r} where its job was asked for ({error})" if last else "printed nothing"
        if not calls_run(path):
            raise ConfigurationError(f"The job file {path!r} runs no job and {printed}. {_RUN_IT}") from None
        raise ConfigurationError(
            f"The job file {path!r} {printed}: its run(job) was not reached, or it has another version of the provider "
            f"than there is here. {_RUN_IT}"
        ) from error
    if application_id not in (None, found.application_id):
        raise ConfigurationError(
            f"{path} is the job of {found.application_id!r}, and application_id is {application_id!r}: name the same "
            "in both."
        )
    return found


def _printed(path: str, application_args: Sequence[str], given: Mapping[str, str], timeout_s: float) -> str:
    """What a job file prints when its job is asked for."""
    application_ids_of(path)  # a file that is not there, or does not compile, says so better here
    try:
        ran = subprocess.run(
            [given.get("PYSPARK_PYTHON") or sys.executable, path, *application_args],
            env=os.environ | given | {DESCRIBE_VARIABLE: "json"},
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
    if ran.returncode != 0:
        raise ConfigurationError(_why(path, ran.returncode, last_error(ran.stderr, path)))
    return ran.stdout


def _why(path: str, status: int, error: LastError | None) -> str:
    """Why a job file ended with an error: what the package says is enough; of what others say, where to see more."""
    more = f"Run it with {DESCRIBE_VARIABLE}=text to see all that it prints."
    if error is None:
        return f"The job file {path!r} does not say what its job is: it ended with status {status}. {more}"
    place = f"The job file {path!r}" + ("" if error.line is None else f", line {error.line}")
    if error.kind in errors.__all__:
        return f"{place}: {error.message}"
    if _NO_SESSION in error.message:
        return f"{place}, calls a function of pyspark. {_OF_PYSPARK}"
    said = f"{place}: {str(error).rstrip('.')}."
    return f"{said} It has functions of pyspark. {_OF_PYSPARK}" if has_pyspark_functions(path) else f"{said} {more}"
