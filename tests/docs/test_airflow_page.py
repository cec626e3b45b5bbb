"""docs/airflow.md says of each operator and sensor what is true of it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import pytest
from airflow.sdk import BaseOperator

import airflow_provider.operators
import airflow_provider.sensors
from airflow_provider.control.drill_fault import DrillKind
from tests.docs.commands import ROOT, our_dags

PAGE = (ROOT / "docs" / "airflow.md").read_text(encoding="utf-8")
# Of every operator of Airflow, which says itself what is a template.
INHERITED = {"self", "kwargs", "retries", "retry_delay", "execution_timeout"}
# Their modules hold no operator or sensor of their own.
BASES = {"control", "deferrable_control", "standby_command"}


def classes() -> Iterator[type[BaseOperator]]:
    for package in (airflow_provider.operators, airflow_provider.sensors):
        for found in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            for name, kind in inspect.getmembers(module, inspect.isclass):
                if issubclass(kind, BaseOperator) and kind.__module__ == module.__name__ and found.name not in BASES:
                    assert name == kind.__name__
                    yield kind


def described(kind: type[BaseOperator]) -> re.Match[str]:
    """The class's row in the page: its call and its module."""
    row = re.search(rf"^\| `{kind.__name__}\((?P<call>[^`]*)\)` \| `(?P<module>\w+)` \|", PAGE, re.MULTILINE)
    assert row is not None, f"docs/airflow.md has no row for {kind.__name__}"
    return row


def arguments_of(kind: type[BaseOperator]) -> set[str]:
    return set(inspect.signature(kind).parameters) - INHERITED


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: str(kind.__name__))
def test_row_names_the_module_and_arguments_that_exist(kind: type[BaseOperator]) -> None:
    row = described(kind)

    assert kind.__module__.rpartition(".")[2] == row["module"]
    named = set(re.findall(r"(?:^|, )(\w+)", row["call"]))
    assert named <= arguments_of(kind)


def test_arguments_that_are_no_templates_are_those_that_the_page_names() -> None:
    sentences = re.findall(r"template\s+fields, except (.*?)\.\s", PAGE)
    exceptions = {name for said in sentences for name in re.findall(r"`(\w+)`", said)}

    plain = {name for kind in classes() for name in arguments_of(kind) - set(kind.template_fields)}

    assert plain == exceptions


def test_every_dag_has_a_row() -> None:
    assert set(re.findall(r"^\| `(stateful_streams_\w+)` \|", PAGE, re.MULTILINE)) == {
        dag for dag in our_dags() if dag.startswith("stateful_streams_")
    }


def test_every_kind_of_drill_has_a_row() -> None:
    table = PAGE.partition("| kind | what it does |")[2].partition("\n\n")[0]

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [kind.value for kind in DrillKind]
