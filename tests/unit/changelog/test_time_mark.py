from __future__ import annotations

import pytest

from airflow_provider.changelog.time_mark import TIME_KEY, TimeMark
from airflow_provider.common.task_id import TaskId
from airflow_provider.state.position import RESERVED_PREFIX


@pytest.mark.parametrize("watermark_ms", [0, -1, 1_700_000_000_000, None])
def test_mark_is_read_as_it_was_written(watermark_ms: int | None) -> None:
    mark = TimeMark(TaskId(2, 17), watermark_ms)

    key, value = mark.record

    assert TimeMark.of(key, value) == mark
    assert key.startswith(RESERVED_PREFIX)


def test_bytes_of_a_mark() -> None:
    assert TimeMark(TaskId(0, 3), 5).record == (b"\xff\xfestateful-streams/time/0_3", b'{"watermark_ms":5}')


@pytest.mark.parametrize(("key", "value"), [(TIME_KEY + b"x", b"{}"), (TIME_KEY + b"0_1", b"nothing")])
def test_what_is_none_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError, match="time"):
        TimeMark.of(key, value)
