from __future__ import annotations

import io

import pytest

from airflow_provider.demo.screen import Screen, bar


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
