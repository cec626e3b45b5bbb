"""docs/formats.md names every field of a heartbeat, of the history and of the metrics, and no other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, history_plain
from airflow_provider.control.records.status import (
    FaultStatus,
    FormerProcess,
    InstanceState,
    RestorePhase,
    Role,
    TaskState,
)
from tests.builders import active, instance
from tests.docs.commands import ROOT
from tests.unit.control.records.test_history import DRILL
from tests.unit.control.records.test_metrics import RECORD

TEXT = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
FORMER = FormerProcess(incarnation=1, state=InstanceState.ENDED, heard_at_ms=0, generation=1, how="killed")
HEARTBEAT: Mapping[str, Any] = to_plain(
    instance("a", active(0, error="it failed"), fault=FaultStatus(id="f"), former=FORMER)
)
(TASK,) = HEARTBEAT["tasks"]
VALUES = {kind.value for kinds in (InstanceState, RestorePhase, Role, TaskState) for kind in kinds}
HISTORY: Mapping[str, Any] = history_plain(DRILL)
HISTORY_VALUES = {kind.value for kinds in (HistoryKind, HistoryOutcome) for kind in kinds}


@dataclass(frozen=True)
class Row:
    """A row of a table: the fields that it is about, and the words in code type that explain them."""

    fields: tuple[str, ...]
    words: frozenset[str]


def rows_after(sentence: str) -> list[Row]:
    """The table that follows a sentence of the page."""
    table = TEXT.partition(sentence)[2].partition("|---|---|\n")[2].partition("\n\n")[0]
    cells = [line.strip("|").split("|") for line in table.splitlines()]
    return [
        Row(tuple(re.findall(r"`(\w+)`", name)), frozenset(re.findall(r"`(\w+)`", meaning))) for name, meaning in cells
    ]


@pytest.mark.parametrize(
    ("sentence", "plain"),
    [
        pytest.param("A heartbeat (`instance/<instance>`).", HEARTBEAT, id="heartbeat"),
        pytest.param("A task in it:", TASK, id="task"),
    ],
)
def test_table_names_the_fields_and_what_is_nested_in_them(sentence: str, plain: Mapping[str, Any]) -> None:
    rows = rows_after(sentence)

    assert [name for row in rows for name in row.fields] == list(plain)
    for row in rows:
        nested = {name for field in row.fields if isinstance(plain[field], dict) for name in plain[field]}
        assert row.words - VALUES - {"active_since"} == nested, row


def test_table_names_every_state() -> None:
    named = {word for row in (*rows_after("A heartbeat ("), *rows_after("A task in it:")) for word in row.words}

    assert named >= VALUES


def test_table_names_the_fields_of_the_history_and_what_is_nested_in_them() -> None:
    rows = rows_after("A record of the history:")

    assert [name for row in rows for name in row.fields] == list(HISTORY)
    assert {word for row in rows for word in row.words} >= HISTORY_VALUES
    for row in rows:
        held = [value[0] if isinstance(value, list) else value for value in (HISTORY[field] for field in row.fields)]
        nested = {name for value in held if isinstance(value, dict) for name in value}
        assert row.words - HISTORY_VALUES - set(HISTORY) == nested - set(HISTORY), row


def test_tables_name_the_fields_of_the_metrics() -> None:
    record = to_plain(RECORD)

    assert [name for row in rows_after("A record of the metrics:") for name in row.fields] == list(record)
    tasks = rows_after("A task in the metrics;")
    assert [name for row in tasks for name in row.fields] == list(record["tasks"][0])
