"""The job file of a deployment, as it lies on the host that launches it: checked, and asked what its job is."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from airflow_provider import errors
from airflow_provider.common.json_codec import from_json
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.error_text import bounded
from airflow_provider.errors import ConfigurationError, DeadlineError

_RAISED: Final = re.compile(r"(?:\w+\.)*(?P<kind>[A-Z]\w*(?:Error|Exception|Interrupt))(?:: (?P<message>.*))?")
_FRAME: Final = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+), in ')
_TRACEBACK: Final = "Traceback (most recent call last):"


@dataclass(frozen=True)
class LastError:
    """What a Python process said last of why it ended.

    Args:
        line: the last one of the job file on the way to it; None where that is not known.
    """

    kind: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


def last_error(log: str, file: str | None = None) -> LastError | None:
    """The last line with which Python ended a traceback; None where there is none.

    Args:
        log: the end of the process's output. Spark's own lines may stand around and below it.
    """
    before = ""
    found: LastError | None = None
    at: int | None = None
    for line in log.splitlines():
        if line == _TRACEBACK:
            at = None
        elif file is not None and (frame := _FRAME.match(line)) is not None and _is_same(frame["file"], file):
            at = int(frame["line"])
        # Below the frames, which are indented. A syntax error has no headline above them.
        if before.startswith(" ") and (raised := _RAISED.fullmatch(line)) is not None:
            found = LastError(raised["kind"], bounded(raised["message"] or ""), at)
        before = line
    return found


def _is_same(one: str, other: str) -> bool:
    """Whether two paths of this host are one; Python may make the one absolute that it was given."""
    return Path(one).resolve() == Path(other).resolve()


_JOB: Final = "StatefulJob"
_FUNCTIONS: Final = "pyspark.sql.functions"


def check_job_file(path: str, application_id: str) -> None:
    """Refuse a job file that cannot work: nothing of it is executed.

    Args:
        application_id: of the deployment; a job of the file has to name it, where all of them name a literal.

    Raises:
        ConfigurationError: there is no such file, it does not compile, or its jobs are of other applications.
    """
    named = application_ids_of(path)
    if named and None not in named and application_id not in named:
        raise ConfigurationError(
            f"{path} is the job of {' and '.join(repr(name) for name in named)}, and application_id is "
            f"{application_id!r}: name the same in both."
        )


def application_ids_of(path: str) -> list[str | None]:
    """The application id of each job that a file makes; None for one that is no literal.

    Raises:
        ConfigurationError: there is no such file, or it does not compile.
    """
    if not Path(path).is_file():
        raise ConfigurationError(f"There is no job file {path!r} on this host: correct its path.")
    try:
        tree = _tree(path)
    except (SyntaxError, ValueError) as error:
        raise ConfigurationError(f"The job file does not compile ({error}): correct it.") from error
    return list(_application_ids(tree))


_parsing: Final = threading.Lock()
"""Python 3.11 counts the depth of what it parses for all threads together, and may end one for another (gh-106905)."""


def _tree(path: str) -> ast.Module:
    with _parsing:
        return ast.parse(Path(path).read_bytes(), path)


def calls_run(path: str) -> bool:
    """Whether a file that compiles calls `run`, anywhere."""
    return any(isinstance(node, ast.Call) and _name(node.func) == "run" for node in ast.walk(_tree(path)))


def has_pyspark_functions(path: str) -> bool:
    """Whether a file that compiles imports the functions of pyspark, which have the names of this package's."""
    found = set[str]()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return any(name == _FUNCTIONS or name.startswith(f"{_FUNCTIONS}.") for name in found)


def sha256_of(path: str) -> str:
    """Of the job file's content; empty where it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def _application_ids(tree: ast.AST) -> Iterator[str | None]:
    """The id of each `StatefulJob` that the file makes; None for one that is no literal."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) == _JOB:
            given = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "application_id")]
            first = given[0] if given else None
            yield first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _name(called: ast.expr) -> str | None:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else None


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
        env_vars: environment of the job; with ``PYSPARK_PYTHON``, that Python runs the file.

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
