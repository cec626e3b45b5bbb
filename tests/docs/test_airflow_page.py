"""docs/airflow.md names the DAGs, actions and drills that there are; docs/operators.md is what the docstrings say."""

from __future__ import annotations

import re
import runpy

from airflow_provider.control.records.drill_fault import DrillKind
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


def test_reference_of_operators_is_that_of_their_docstrings() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "build_reference.py"))

    assert made["PAGE"].read_text(encoding="utf-8") == made["operators_page"](), "run `make docs`"
