from __future__ import annotations

from airflow_provider.cli.status import fitted


def test_what_the_terminal_has_no_line_for_is_left_out() -> None:
    text = "\n".join("abcdefgh")

    assert fitted(text, 9) == text
    assert fitted(text, 5).splitlines() == [
        "a",
        "b",
        "c",
        "... 5 more lines: use a higher window, or leave --watch out",
    ]
