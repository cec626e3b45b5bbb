from __future__ import annotations

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.joins.join_rows import GONE, RIGHT, KeptRow, encode_rows, newest_row

OLD, NEW = KeptRow(1, RIGHT, b"old"), KeptRow(2, RIGHT, b"new")
DELETED = KeptRow(3, RIGHT | GONE, b"")


@pytest.mark.parametrize(
    ("rows", "newest"),
    [
        ([], None),
        ([NEW], b"new"),
        ([OLD, NEW], b"new"),
        ([DELETED], None),
        ([OLD, DELETED], None),
        ([DELETED, NEW], b"new"),
        ([KeptRow(1, RIGHT, b"")], b""),
    ],
)
def test_newest_row_is_the_last_that_is_kept(rows: list[KeptRow], newest: bytes | None) -> None:
    assert newest_row(encode_rows(rows)) == newest


@pytest.mark.parametrize("state", [b"x", bytes(13) + b"more", (encode_rows([NEW]) or b"")[:-1]])
def test_newest_row_of_another_operations_state_is_refused(state: bytes) -> None:
    with pytest.raises(ConfigurationError, match="not one of a join"):
        newest_row(state)
