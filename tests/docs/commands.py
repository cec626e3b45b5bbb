"""What can be known of a shell command without running it."""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from airflow.cli import cli_parser
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

from airflow_provider.factory.dags import StreamDags
from tests.docs.fences import fences_of

__all__ = ["ROOT", "UnknownCommandError", "check_script", "our_dags"]

ROOT = Path(__file__).parents[2]

# Of every system. They are taken as they are.
_PLAIN = frozenset(["cat", "cd", "df", "du", "echo", "export", "kill", "ls", "mkdir", "pgrep", "ps", "rm", "tail", "."])
# Of Kafka's own distribution, which a person who runs brokers has.
_KAFKA = frozenset(
    f"kafka-{tool}.sh"
    for tool in ("configs", "console-consumer", "consumer-groups", "get-offsets", "topics", "transactions")
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_SEPARATORS = frozenset({"&&", "||", ";", "|", "&"})
_CLONE = re.compile(r"^(?:/path/to/clone|\"?\$CLONE\"?)/?")


class UnknownCommandError(AssertionError):
    """A page names a command, target, module, option, DAG or file that does not exist."""


def commands_of(script: str) -> Iterator[list[str]]:
    """The commands of a shell script, as words; assignments before a command and redirections left out.

    Raises:
        ValueError: a quotation is not closed.
    """
    for line in _logical_lines(script):
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        command: list[str] = []
        words = iter(lexer)
        for word in words:
            if word in _SEPARATORS:
                yield from _bare(command)
                command = []
            elif set(word) <= {"<", ">", "&"}:
                next(words, None)
            else:
                command.append(word)
        yield from _bare(command)


def _logical_lines(script: str) -> Iterator[str]:
    """Lines, those joined that a backslash or an open quotation continues."""
    pending = ""
    for line in script.splitlines():
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
            continue
        try:
            shlex.split(pending, comments=True)
        except ValueError:
            pending += "\n"
            continue
        yield pending
        pending = ""
    if pending:
        yield pending


def _bare(words: Sequence[str]) -> Iterator[list[str]]:
    rest = list(words)
    while rest and _ASSIGNMENT.fullmatch(rest[0]):
        rest.pop(0)
    if rest:
        yield rest


def check_script(script: str, saved: Collection[str] = ()) -> int:
    """Check each command of a script; returns how many there are.

    Args:
        script: for a shell.
        saved: files that the page's reader has saved before.

    Raises:
        UnknownCommandError: one names something that does not exist.
    """
    commands = list(commands_of(script))
    for command in commands:
        check(command, saved)
    return len(commands)


def check(command: Sequence[str], saved: Collection[str] = ()) -> None:
    """Whether a command can be what a page says of it.

    Raises:
        UnknownCommandError: it names something that does not exist.
    """
    program, arguments = command[0], list(command[1:])
    if program == "." and arguments[0].startswith("./") and arguments[0].removeprefix("./") not in saved:
        raise UnknownCommandError(f"{arguments[0]!r} is not a file that the page's reader has saved.")
    if program in _PLAIN or program in _KAFKA:
        return
    if program == "make":
        _check_make(arguments)
    elif program == "cp":
        _check_copy(arguments)
    elif Path(program).name in ("python", "python3"):
        if not (arguments and arguments[0] in saved):
            _check_python(arguments)
    elif program == "pip":
        _check_pip(arguments)
    elif program == "airflow":
        _check_airflow(arguments)
    else:
        raise UnknownCommandError(f"{program!r} is not among the programs that the pages may use.")


def _check_make(arguments: Sequence[str]) -> None:
    words = [word for at, word in enumerate(arguments) if word != "-C" and (at == 0 or arguments[at - 1] != "-C")]
    if "-C" in arguments:
        _check_in_clone(arguments[list(arguments).index("-C") + 1])
    known = {line.split(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if re.match(r"[a-z-]+:", line)}
    for word in words:
        if "=" in word:
            if not re.search(rf"\$\(?{word.split('=')[0]}\b", (ROOT / "Makefile").read_text()):
                raise UnknownCommandError(f"The Makefile knows no variable {word.split('=')[0]!r}.")
        elif word not in known:
            raise UnknownCommandError(f"The Makefile has no target {word!r}.")


def _check_copy(arguments: Sequence[str]) -> None:
    for source in [word for word in arguments if not word.startswith("-")][:-1]:
        _check_in_clone(source)


def _check_in_clone(path: str) -> None:
    if _CLONE.match(path) and not any(ROOT.glob(_CLONE.sub("", path) or "Makefile")):
        raise UnknownCommandError(f"The repository has no {_CLONE.sub('', path)!r}.")


def _check_python(arguments: Sequence[str]) -> None:
    if arguments[:1] != ["-m"] or len(arguments) < 2:
        raise UnknownCommandError(f"python {' '.join(arguments)}: the pages may use 'python -m <module>' only.")
    module, rest = arguments[1], list(arguments[2:])
    if module == "pip":
        _check_pip(rest)
    elif module == "airflow":
        _check_airflow(rest)
    elif module == "pytest":
        for word in rest:
            if not word.startswith("-") and "tests/" in word and not (ROOT / word).exists():
                raise UnknownCommandError(f"There is no {word!r}.")
    elif importlib.util.find_spec(module) is None:
        raise UnknownCommandError(f"There is no module {module!r}.")
    elif module.startswith("airflow_provider"):
        _check_options(module, rest)


def _check_options(module: str, arguments: Sequence[str]) -> None:
    at = importlib.util.find_spec(module)
    assert at is not None
    if at.submodule_search_locations is not None and importlib.util.find_spec(f"{module}.__main__") is None:
        raise UnknownCommandError(f"'python -m {module}' cannot be run: it has no __main__.")
    subcommand = [arguments[0]] if arguments and not arguments[0].startswith("-") else []
    text = _help_of(module, tuple(subcommand))
    for option in [word.split("=")[0] for word in arguments if word.startswith("-")]:
        if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text):
            raise UnknownCommandError(f"'python -m {' '.join([module, *subcommand])}' has no option {option!r}.")


@functools.cache
def _help_of(module: str, subcommand: tuple[str, ...]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *subcommand, "--help"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise UnknownCommandError(f"'python -m {module} {' '.join(subcommand)} --help' failed: {done.stderr[-500:]}")
    return done.stdout


def _check_pip(arguments: Sequence[str]) -> None:
    if arguments[:1] not in (["install"], ["list"], ["show"], ["uninstall"]):
        raise UnknownCommandError(f"pip {' '.join(arguments)}: the pages may install, list and show only.")
    for word in arguments[1:]:
        if "airflow-provider-stateful-streams" in word and arguments[0] == "install":
            raise UnknownCommandError("The distribution is on no index: install it from a clone.")
        if (extra := re.search(r"\[(\w+)\]$", word)) is not None and f"\n{extra[1]} = [" not in (
            ROOT / "pyproject.toml"
        ).read_text():
            raise UnknownCommandError(f"The distribution has no extra {extra[1]!r}.")
        _check_in_clone(word.split("[")[0])


def _check_airflow(arguments: Sequence[str]) -> None:
    try:
        parsed = cli_parser.get_parser().parse_args(list(arguments))
    except SystemExit as error:
        raise UnknownCommandError(f"Airflow does not know 'airflow {' '.join(arguments)}'.") from error
    dag_id = getattr(parsed, "dag_id", None)
    if dag_id is None:
        return
    dag = our_dags().get(str(dag_id))
    if dag is None:
        raise UnknownCommandError(f"There is no DAG {dag_id!r}, only {', '.join(our_dags())}.")
    task_id = getattr(parsed, "task_id", None)
    if task_id is not None and task_id not in dag.task_ids:
        raise UnknownCommandError(f"{dag_id} has no task {task_id!r}.")
    for name in json.loads(getattr(parsed, "conf", None) or "{}"):
        if name not in dag.params:
            raise UnknownCommandError(f"{dag_id} has no parameter {name!r}.")


@functools.cache
def our_dags() -> dict[str, DAG]:
    """The repository's DAGs, and those of the DAG files that the pages have, by their ids."""
    found: list[DAG] = list(DagBag(str(ROOT / "dags")).dags.values())
    for fence in (one for page in (ROOT / "docs").glob("*.md") for one in fences_of(page) if one.way == "dag"):
        values: dict[str, Any] = {"__name__": "page"}
        exec(compile(fence.text, str(fence.page), "exec"), values)
        found += [dag for made in values.values() if isinstance(made, StreamDags) for dag in made.values()]
    return {dag.dag_id: dag for dag in found}
