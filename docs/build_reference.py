"""Builds the reference of what users import, from the docstrings: `make docs` writes it into docs/api/.

What people put into DAG files is a page of its own, docs/operators.md, which is kept: it is written anew with the rest.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "operators.md"

_HEAD = """# Operators and sensors

What a DAG file may say, one by one; [the Airflow side](airflow.md) says what it is for. This page is made of the
docstrings, by `make docs`: correct them, not it.
"""
# Of every operator of Airflow.
_INHERITED = {"kwargs", "retries", "retry_delay", "execution_timeout"}

# What a job file, a DAG file or a test of a user may import. A package stands for its modules, too.
PUBLIC = (
    "airflow_provider.streaming",
    "airflow_provider.streaming.functions",
    "airflow_provider.streaming.operations.process",
    "airflow_provider.testing",
    "airflow_provider.errors",
    "airflow_provider.factory",
    "airflow_provider.assets",
    "airflow_provider.operators",
    "airflow_provider.sensors",
    "airflow_provider.hooks",
    "airflow_provider.triggers",
    "airflow_provider.kafka",
    "airflow_provider.kit",
)
# Their modules are internal, and what of them is for users is named by the package.
_FRONT_DOORS = ("airflow_provider.factory", "airflow_provider.streaming", "airflow_provider.testing")


def modules() -> Iterator[str]:
    """The names of the modules that have a page.

    Raises:
        ImportError: one of them cannot be imported.
    """
    for name in PUBLIC:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        yield name
        if name not in _FRONT_DOORS and hasattr(module, "__path__"):
            for found in pkgutil.iter_modules(module.__path__):
                if found.name != "__main__":
                    importlib.import_module(f"{name}.{found.name}")
                    yield f"{name}.{found.name}"


def operators_page() -> str:
    """The page of what people put into DAG files."""
    import airflow_provider
    from airflow_provider import operators, sensors
    from airflow_provider.bases.deferrable_control import DeferrableControl
    from airflow_provider.factory.spec import Stream
    from airflow_provider.sensors.control import ControlSensor

    one_call = ["stream_dags", "Instance", "Drill", "Slo", "Callbacks"]
    lines = [_HEAD, "## One call an application", ""]
    for name in one_call:
        lines += _entry(getattr(airflow_provider, name), Stream if name == "stream_dags" else None)
    for title, package, base in (("Operators", operators, DeferrableControl), ("Sensors", sensors, ControlSensor)):
        kinds = [getattr(package, name) for name in package.__all__]
        lines += [f"## {title}", "", f"From `{package.__name__}`.", "", "| class | what it does |", "|---|---|"]
        lines += [f"| [`{kind.__name__}`](#{kind.__name__.lower()}) | {_first_line(kind)} |" for kind in kinds]
        lines += ["", f"### All {title.lower()}", "", *_body(base)]
        for kind in kinds:
            lines += _entry(kind, None if "__init__" in vars(kind) else kind.__base__)
    return "\n".join(lines).rstrip() + "\n"


def _first_line(kind: Any) -> str:
    return (inspect.getdoc(kind) or "").splitlines()[0]


def _entry(kind: Any, fields: Any = None) -> list[str]:
    """A heading and the docstring; the fields of another class are arguments, too."""
    lines = [f"### {kind.__name__}", "", *_body(kind, whole=fields is None)]
    return lines if fields is None else [*lines, *_body(fields)[2:]]


def _body(kind: Any, whole: bool = True) -> list[str]:
    """The docstring in Markdown. Its arguments have their defaults, and say where they are no templates.

    An argument that the docstring leaves out, because its name says all, has its type in the place of a text.

    Args:
        whole: whether all arguments have a line; else those that the docstring names.
    """
    lines, arguments, after = _sections(inspect.getdoc(kind) or "")
    found = inspect.signature(kind).parameters
    named = [name for name in found if name in arguments or (whole and _is_missed(found[name]))]
    named += [name for name in arguments if name not in found]
    listed = [line for name in named for line in _argument(kind, name, found.get(name), arguments.get(name))]
    return [*_without_end(lines), "", *listed, *([""] if listed else []), *after, ""]


def _sections(text: str) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """What a docstring says before its arguments, the lines of each argument, and what follows them."""
    before, arguments, after = list[str](), dict[str, list[str]](), list[str]()
    section, name = "", ""
    for line in text.splitlines():
        if line in ("Args:", "Returns:", "Raises:"):
            section = line
            after += [] if section == "Args:" else [f"*{section.removesuffix(':')}*", ""]
        elif section == "Args:":
            if line.startswith("      "):
                arguments[name].append(line.strip())
            elif line:
                name, _, said = line.strip().partition(": ")
                arguments[name] = [said]
        elif section == "Raises:" and line and not line.startswith("      "):
            name, _, said = line.strip().partition(": ")
            after.append(f"- `{name}`: {said}")
        else:
            indent = "  " if section == "Raises:" and line else ""
            (after if section else before).append(indent + line.strip())
    return before, arguments, after


def _is_missed(argument: inspect.Parameter) -> bool:
    return argument.name not in _INHERITED and argument.kind not in (argument.VAR_KEYWORD, argument.VAR_POSITIONAL)


def _argument(kind: Any, name: str, argument: inspect.Parameter | None, said: list[str] | None) -> Iterator[str]:
    default = inspect.Parameter.empty if argument is None else argument.default
    # What an installation's settings say is no default of the package.
    given = "" if default is inspect.Parameter.empty or name == "deferrable" else f" = {_shown(default)}"
    templates = getattr(kind, "template_fields", None)
    plain = templates is not None and argument is not None and name not in {*templates, *_INHERITED}
    first, *further = said or [f"`{'' if argument is None else argument.annotation}`"]
    yield f"- `{name}{given}`{' (no template)' if plain else ''}: {first}"
    yield from (f"  {text}" for text in further)


def _shown(default: Any) -> str:
    """A default as a person writes it; one that is made anew each time is empty."""
    return repr(default) if isinstance(default, (bool, int, float, str, tuple, type(None))) else "..."


def _without_end(lines: list[str]) -> list[str]:
    return lines[:-1] if lines and not lines[-1] else lines


def build(folder: Path, names: list[str]) -> None:
    """Write a page per module, and an index.

    Args:
        folder: where to; made when it is not there.
        names: the modules.
    """
    import pdoc
    from pdoc.render import configure

    # Types that Airflow imports for type checkers only cannot be linked; their names are shown as they stand.
    warnings.filterwarnings("ignore", module="pdoc")
    configure(docformat="google", show_source=False)
    pdoc.pdoc(*names, output_directory=folder)


def main() -> None:
    """Build all of it, or say what is missing."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "api"
    with tempfile.TemporaryDirectory() as home:
        # Airflow reads its settings when it is imported: the user's own are not needed for this.
        os.environ.update(AIRFLOW_HOME=home, AIRFLOW__CORE__LOAD_EXAMPLES="False")
        names = list(modules())
        PAGE.write_text(operators_page(), encoding="utf-8")
        build(target, names)
    print(f"{len(names)} modules: {target / 'index.html'}")


if __name__ == "__main__":
    main()
