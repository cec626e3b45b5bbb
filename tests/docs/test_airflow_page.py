"""docs/airflow.md names the DAGs, actions and drills that there are; docs/operators.md is what the docstrings say."""

from __future__ import annotations

import inspect
import re
import runpy
from collections.abc import Iterator

import pytest

import airflow_provider
from airflow_provider import operators, sensors
from airflow_provider.control.records.drill_fault import DrillKind
from airflow_provider.factory.spec import Stream
from tests.docs.commands import ROOT, our_dags

PAGE = (ROOT / "docs" / "airflow.md").read_text(encoding="utf-8")


def rows_of(heading: str) -> list[str]:
    """The first column of the table that begins so."""
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    return [
        name for cell in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for name in re.findall(r"`(.*?)`", cell)
    ]


def test_every_dag_of_an_application_has_a_row() -> None:
    dags = {re.sub(r"_drill_\w+", "_drill_<kind>", dag) for dag in our_dags() if dag.startswith("orders_")}

    assert set(rows_of("| DAG | started | does |")) == dags - {"orders_before_the_batch", "orders_history"}


def test_every_action_of_operate_has_a_row() -> None:
    actions = our_dags()["orders_operate"].params.get_param("action").schema["enum"]

    assert rows_of("| action | does |") == actions


def test_every_kind_of_drill_has_a_row() -> None:
    assert rows_of("| kind | what it does |") == [kind.value for kind in DrillKind]


@pytest.mark.parametrize("argument", ["state_dir", "run_dir"])
def test_readme_says_where_stores_and_logs_lie(argument: str) -> None:
    default = inspect.signature(Stream).parameters[argument].default

    assert f"`{default}`" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_reference_of_operators_is_that_of_their_docstrings() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "build_reference.py"))

    assert made["PAGE"].read_text(encoding="utf-8") == made["operators_page"](), "run `make docs`"


REFERENCE = {
    section.partition("\n")[0]: section
    for section in re.split(r"^### ", (ROOT / "docs" / "operators.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
}


def entries() -> Iterator[tuple[str, object]]:
    """What a DAG file may call, with the class whose arguments it takes."""
    yield "stream_dags", Stream
    for name in ("Instance", "Drill", "Slo", "Callbacks"):
        yield name, getattr(airflow_provider, name)
    for package in (operators, sensors):
        yield from ((name, getattr(package, name)) for name in package.__all__)


@pytest.mark.parametrize(("name", "kind"), [pytest.param(name, kind, id=name) for name, kind in entries()])
def test_every_argument_has_its_line(name: str, kind: type) -> None:
    arguments = {
        argument.name
        for argument in inspect.signature(kind).parameters.values()
        if argument.kind is not argument.VAR_KEYWORD
    }

    assert arguments - set(re.findall(r"^- `(\w+)", REFERENCE[name], re.MULTILINE)) <= {"retries", "retry_delay"}
