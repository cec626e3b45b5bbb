from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.common.file_end import file_end


@pytest.mark.parametrize(
    ("max_bytes", "end"),
    [
        pytest.param(100, "first\nlast \N{REPLACEMENT CHARACTER}\n", id="smaller"),
        pytest.param(7, "last \N{REPLACEMENT CHARACTER}\n", id="larger"),
    ],
)
def test_end_of_a_file_is_read(max_bytes: int, end: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"first\nlast \xff\n")

    assert file_end(log, max_bytes) == end


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_end(tmp_path / "none.log")
