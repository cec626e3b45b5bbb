from __future__ import annotations

import io

import pytest

from airflow_provider.demo.screen import Screen, bar, table


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


def test_table_is_aligned() -> None:
    lines = table("Right.", [("RTO", "3.45 s"), ("different", "0")])

    assert lines[0] == "Right."
    assert lines[2:4] == ["  RTO        3.45 s", "  different       0"]
    assert lines[1] == lines[4] == "-" * len(lines[2])


def test_steps_stay_and_progress_is_printed_now_and_then_without_a_terminal() -> None:
    stream = io.StringIO()
    screen = Screen(stream)

    screen.say("started")
    screen.show("10 %")
    screen.show("20 %")
    screen.say("ended")

    assert [line.split("s  ", 1)[1] for line in stream.getvalue().splitlines()] == ["started", "10 %", "ended"]
    assert "\r" not in stream.getvalue()


def test_progress_moves_on_a_terminal() -> None:
    stream = Terminal()
    screen = Screen(stream)

    screen.show("10 %")
    screen.show("20 %")
    screen.settle()

    assert stream.getvalue().count("\n") == 0
    assert stream.getvalue().endswith("\r\x1b[2K")
