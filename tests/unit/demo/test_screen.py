from __future__ import annotations

import argparse
import dataclasses
import io
import shlex
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.cli.status import add_status
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import TaskAssignment
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.view import ControlView
from airflow_provider.demo.judge import Verdict
from airflow_provider.demo.results import Timeline
from airflow_provider.demo.screen import (
    Narrator,
    Screen,
    bar,
    instance_lines,
    next_steps,
    positions,
    processed,
    result_rows,
    result_title,
)
from tests.builders import APPLICATION, active, assigned, instance, promoted, standby, view_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("done", "total", "wanted"),
    [
        pytest.param(0, 8, "[....]   0%", id="empty"),
        pytest.param(4, 8, "[##..]  50%", id="half"),
        pytest.param(8, 8, "[####] 100%", id="full"),
        pytest.param(9, 8, "[####] 100%", id="over"),
        pytest.param(0, 0, "[####] 100%", id="nothing to do"),
    ],
)
def test_bar(done: int, total: int, wanted: str) -> None:
    assert bar(done, total, width=4) == wanted


ROWS = [("RTO", "3.45 s"), ("different", "0")]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return Terminal()


def test_result_is_aligned() -> None:
    stream = io.StringIO()

    Screen(stream).result("Right.", True, ROWS, ["a remark"])

    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert lines[:2] == ["", "Right."]
    assert lines[-1] == "a remark"
    figures = [line for line in lines if "RTO" in line or "different" in line]
    assert len({len(line) for line in figures}) == 1
    assert [line.split()[-1] for line in figures] == ["s", "0"]


def test_steps_stay_and_progress_is_printed_now_and_then_without_a_terminal() -> None:
    stream = io.StringIO()
    screen = Screen(stream)

    screen.say("started")
    screen.show("10 %", "i1 works")
    screen.show("20 %", "i1 works")
    screen.say("ended")

    lines = stream.getvalue().splitlines()
    assert [line[9:] for line in lines] == ["started", "10 %", "i1 works", "ended"]
    assert not {"\r", "\x1b"} & set(stream.getvalue())


def test_long_line_is_whole_without_a_terminal() -> None:
    stream = io.StringIO()
    text = "task " * 60 + "end [0, 1]"

    Screen(stream).say(text)

    assert stream.getvalue().endswith(f"{text}\n")
    assert stream.getvalue().count("\n") == 1


def test_progress_moves_on_a_terminal_and_nothing_of_it_is_cut(terminal: Terminal) -> None:
    screen = Screen(terminal)

    screen.show("10 %", "task " * 30 + "the end")
    screen.say("a step")
    screen.show("20 %")
    screen.clear()

    written = terminal.getvalue()
    assert "the end" in written
    assert "a step" in written
    assert "\x1b[2K" in written  # a line was taken away
    assert written.index("10 %") < written.index("20 %")


INCIDENT = Incident(
    application_id=APPLICATION,
    kind=IncidentKind.INSTANCE_ENDED,
    instance="a",
    incarnation=7,
    tasks=(TaskId(0, 0),),
    evidence="killed by signal 9",
)
RECORD = IncidentRecord(
    incident=INCIDENT,
    answered_by="run",
    detected_at_ms=1_200,
    decided_at_ms=2_000,
    generation=2,
    plan=(promoted(0, "b"),),
    failed_at_ms=1_000,
)


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def narrator(stream: io.StringIO) -> Narrator:
    return Narrator(Screen(stream))


def answered(record: IncidentRecord, **of_task: Any) -> ControlView:
    view = view_of(assigned("b", generation=2), instance("b", active(0, generation=2, **of_task)))
    view.incidents[record.incident.id] = record
    return view


def test_nothing_is_said_before_the_failure_is_answered(narrator: Narrator, stream: io.StringIO) -> None:
    assert narrator.failover(view_of(assigned("a b")), "a", 7, 1_000) is None
    assert stream.getvalue() == ""


def test_each_step_is_said_once(narrator: Narrator, stream: io.StringIO) -> None:
    resolved = dataclasses.replace(RECORD, resolved_at_ms=9_000)
    for view in (
        answered(RECORD),
        answered(RECORD),
        answered(RECORD, owned_at_ms=2_100),
        answered(RECORD, owned_at_ms=2_100, first_commit_at_ms=3_500),
        answered(resolved, owned_at_ms=2_100, first_commit_at_ms=3_500),
        answered(resolved, owned_at_ms=2_100, first_commit_at_ms=3_500),
    ):
        found = narrator.failover(view, "a", 7, 1_000)

    assert found is not None
    assert found.resolved_at_ms == 9_000
    assert [line.split("s  ", 1)[1].strip() for line in stream.getvalue().splitlines()] == [
        "detected 0.2 s after the kill: killed by signal 9",
        "decided 1.0 s after the kill by the failover DAG, generation 2",
        "task 0_0: promote on b (lag 0)",
        "promoted 1.1 s after the kill",
        "all its tasks commit again 2.5 s after the kill",
        "every task has a warm standby again 8.0 s after the kill",
    ]


def test_times_of_a_task_stand_when_it_moves_once_more(narrator: Narrator) -> None:
    narrator.failover(answered(RECORD, owned_at_ms=2_100, first_commit_at_ms=3_500), "a", 7, 1_000)
    moved = view_of(assigned("a b", generation=3), instance("a", active(0, generation=3)))
    moved.incidents[INCIDENT.id] = RECORD

    reported = narrator.failover(moved, "a", 7, 1_000)

    assert reported is not None
    assert (reported.owned_at_ms, reported.first_commit_at_ms) == (2_100, 3_500)


def test_failure_of_another_process_of_the_instance_is_not_this_one(narrator: Narrator) -> None:
    assert narrator.failover(answered(RECORD), "a", 8, 1_000) is None


def test_processed_counts_what_the_assigned_actives_tell() -> None:
    view = view_of(
        assigned("a b", "b a", "c"),
        instance("a", active(0, source_offset=10), standby(1)),
        instance("b", standby(0, source_offset=99), active(1, source_offset=5)),
        instance("c", active(2, source_offset=7), state=InstanceState.ENDED),
    )

    assert processed(view, (0,)) == 15
    assert positions(view, 0) == {0: 10, 1: 5, 2: None}


def test_processed_is_what_every_stage_that_reads_the_source_has_processed() -> None:
    given = {TaskId(stage, 0): TaskAssignment("a", (), 1) for stage in (0, 1, 2)}
    statuses = (active(task, source_offset=10 - task.stage) for task in given)
    view = view_of(dataclasses.replace(assigned(), tasks=given), instance("a", *statuses))

    assert processed(view, (0, 1)) == 9
    assert positions(view, 2) == {0: 8}


def test_every_instance_is_shown_with_its_active_and_standby_tasks() -> None:
    view = view_of(assigned("a b", "b a", "a b"), instance("a", active(0)), instance("b", active(1)))

    assert instance_lines(view) == [
        "a running: active for 2 tasks, standby for 1",
        "b running: active for 1 tasks, standby for 2",
    ]


TIMELINE = Timeline(10_000, 10_200, 11_000, None, 12_000, 12_600, None, 7, (TaskId(0, 0),))


def test_rows_give_the_steps_after_the_kill_and_the_counts() -> None:
    rows = dict(result_rows(TIMELINE, Verdict(3, 20, ("x",), (), ()), flights=336_776, outputs=4_000))

    assert rows["detected"] == "+0.20 s"
    assert rows["promoted"] == "-"
    assert rows["RTO: kill to output of all its tasks"] == "2.60 s"
    assert rows["flights: input records, one per departure"] == "336,776"
    assert rows["outputs: one per key and micro-batch"] == "4,000"
    assert rows["hours of airports compared with pandas"] == "20"
    assert (rows["different"], rows["duplicated"]) == ("1", "0")


def test_title_says_whether_it_is_right() -> None:
    assert result_title(True).startswith("Right: ")
    assert result_title(False).startswith("WRONG: ")


ROOT = Path(__file__).parents[3]
LINES = next_steps("http://127.0.0.1:8080", "127.0.0.1:9092", "flights", "drill")


def test_kept_demo_says_how_to_look_at_its_application() -> None:
    (command,) = (line for line in LINES if "python -m airflow_provider " in line)

    parser = argparse.ArgumentParser()
    add_status(parser.add_subparsers())
    asked = parser.parse_args(shlex.split(command)[3:])

    assert (asked.application_id, asked.bootstrap_servers) == ("flights", "127.0.0.1:9092")


def test_kept_demo_names_its_drill_and_the_page_for_an_own_job() -> None:
    text = "\n".join(LINES)

    assert "http://127.0.0.1:8080/dags/drill, Trigger" in text
    assert "docs/first-job.md" in text
    assert (ROOT / "docs" / "first-job.md").exists()
    assert "make down" in LINES[-1]


def test_lines_fit_a_terminal() -> None:
    assert max(map(len, LINES)) <= 120
