from __future__ import annotations

from airflow_provider.common.table import table, table_lines


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_with_their_last() -> None:
    rows = [("0_0", "a"), ("0_1", "longer"), ("0_2", "")]

    assert table(("task", "on"), rows) == "task  on\n0_0   a\n0_1   longer\n0_2"
    assert table_lines(("task", "on"), []) == ["task  on"]
