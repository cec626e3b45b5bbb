from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.demo.judge import Verdict
from airflow_provider.demo.result_rows import result_rows, result_title
from airflow_provider.demo.timeline import Timeline

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
