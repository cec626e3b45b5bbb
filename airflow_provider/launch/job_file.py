"""The job file of a deployment, as it lies on the host that launches it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from airflow_provider.errors import ConfigurationError

_JOB: Final = "StatefulJob"
_FUNCTIONS: Final = "pyspark.sql.functions"


def check_job_file(path: str, application_id: str) -> None:
    """Refuse a job file that cannot work: nothing of it is executed.

    Args:
        path: of the file, on this worker.
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

    Args:
        path: of the file, on this host.

    Raises:
        ConfigurationError: there is no such file, or it does not compile.
    """
    file = Path(path)
    if not file.is_file():
        raise ConfigurationError(f"There is no job file {path!r} on this host: correct its path.")
    try:
        tree = ast.parse(file.read_bytes(), path)
    except (SyntaxError, ValueError) as error:
        raise ConfigurationError(f"The job file does not compile ({error}): correct it.") from error
    return list(_application_ids(tree))


def calls_run(path: str) -> bool:
    """Whether a file that compiles calls `run`, anywhere."""
    tree = ast.parse(Path(path).read_bytes(), path)
    return any(isinstance(node, ast.Call) and _name(node.func) == "run" for node in ast.walk(tree))


def has_pyspark_functions(path: str) -> bool:
    """Whether a file that compiles imports the functions of pyspark, which have the names of this package's."""
    found = set[str]()
    for node in ast.walk(ast.parse(Path(path).read_bytes(), path)):
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
