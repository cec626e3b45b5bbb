from __future__ import annotations

from airflow_provider.cli.standby_commands import certificates


def test_what_was_found_of_each_standby_has_a_line() -> None:
    a = {"instance": "a", "positions": {"0_1": 10}, "diverged": {"0_2": "it held something else"}}
    b = {"instance": "b", "positions": {"0_0": 11}, "diverged": {}}

    assert certificates([b, a]).splitlines() == [
        "instance  task  found",
        "a         0_1   holds the same at 10",
        "a         0_2   DIFFERED: it held something else",
        "b         0_0   holds the same at 11",
    ]
