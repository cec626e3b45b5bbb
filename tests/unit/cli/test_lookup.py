"""What `lookup` prints, and its exit status."""

from __future__ import annotations

import dataclasses
import json
from typing import Final

import pytest

from airflow_provider.cli import lookup
from airflow_provider.cli.main import main
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.lookup.asking import FoundCopy, Lookup
from airflow_provider.control.records.lookup import CopyAnswer, KeptState
from airflow_provider.control.records.task_state import Role, TaskState

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)
OWNER: Final = CopyAnswer(
    task=FIRST,
    role=Role.ACTIVE,
    state=TaskState.RUNNING,
    states=(KeptState(name="ann", value='{"paid":12.50,"id":12345678901234567890}'),),
    source_offset=1_200,
    commit_at=2_400,
    committed_at_ms=1_772_359_200_000,
    lag_records=0,
)
STANDBY: Final = CopyAnswer(
    task=FIRST,
    role=Role.STANDBY,
    state=TaskState.FOLLOWING,
    states=(KeptState(name="ann", value="1"),),
    lag_records=1_234,
    lag_s=2.25,
    complete=False,
)


def run(found: Lookup, monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(lookup, "look_up", lambda *_: found)
    return main(["lookup", "orders", "ann", *options])


def result(copy: CopyAnswer | None = None, unknown: str | None = None) -> Lookup:
    found = {} if copy is None else {FIRST: FoundCopy(instance="a", copy=copy, owner=copy is OWNER)}
    return Lookup(
        store="state",
        key=("ann",),
        found=found,
        absent=(SECOND,),
        unknown={} if unknown is None else {FIRST: unknown},
    )


def test_text_of_a_record_commands_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = KeptState(name="a\x1b]0;owned\x07nn", value='"\x9b2J"')
    assert run(result(dataclasses.replace(OWNER, states=(evil,))), monkeypatch) == 0

    shown = capsys.readouterr().out
    assert "a\ufffd]0;owned\ufffdnn" in shown
    assert set(shown) & {chr(code) for code in (*range(32), *range(127, 160))} <= {"\n"}


def test_value_is_shown_with_all_its_digits_and_of_when_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(result(OWNER), monkeypatch) == 0
    assert capsys.readouterr().out.splitlines() == [
        "task 0_0 on a: active, running, of the commit at offset 2,400, 2026-03-01T10:00:00+00:00: all input before "
        "offset 1,200",
        "ann: {",
        '  "paid": 12.50,',
        '  "id": 12345678901234567890',
        "}",
    ]


def test_standby_says_how_far_it_is_behind_and_whether_there_is_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(result(STANDBY), monkeypatch) == 0
    assert capsys.readouterr().out.splitlines() == [
        "task 0_0 on a: standby, 1,234 changelog records behind for 2.2 s, whose owner did not answer, "
        "before its first commit",
        "ann: 1",
        "  ... and more than an answer takes",
    ]


def test_programs_get_the_value_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(result(OWNER), monkeypatch, "--json") == 0
    out = capsys.readouterr().out
    (one,) = json.loads(out)["found"]

    assert "12.50" in out
    assert one["states"] == [{"name": "ann", "value": {"paid": 12.5, "id": 12345678901234567890}}]
    assert (one["task"], one["instance"], one["role"], one["lag_records"]) == ("0_0", "a", "active", 0)


def test_key_that_is_absent_is_a_no(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(result(), monkeypatch) == 3
    assert capsys.readouterr().out == "the store 'state' holds nothing of 'ann'\n"


def test_key_of_which_nothing_is_known_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(result(unknown="no instance has it"), monkeypatch) == 1
    said = capsys.readouterr()

    assert said.out == "task 0_0: no instance has it\n"
    assert "holds 'ann' is not known (task 0_0: no instance has it)" in said.err
