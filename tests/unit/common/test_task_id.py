from __future__ import annotations

import pickle
from dataclasses import dataclass

import msgspec
import pytest

from airflow_provider.common.json_codec import from_json, from_plain, to_json, to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError


@dataclass(frozen=True)
class Owners:
    owners: dict[TaskId, str]
    moved: tuple[TaskId, ...]


OWNERS = Owners({TaskId(0, 3): "a", TaskId(1, 10): "b"}, (TaskId(0, 3),))


def test_is_written_as_kafka_streams_writes_it() -> None:
    assert str(TaskId(0, 3)) == "0_3"
    assert TaskId.parse(" 12_345 ") == TaskId(12, 345)


@pytest.mark.parametrize("text", ["", "3", "0-3", "0_", "a_b", "0_3_4", "-1_2"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected <stage>_<partition>"):
        TaskId.parse(text)


def test_is_ordered_by_number_and_not_by_text() -> None:
    ids = [TaskId(1, 0), TaskId(0, 10), TaskId(0, 2)]

    assert sorted(ids) == [TaskId(0, 2), TaskId(0, 10), TaskId(1, 0)]


def test_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(TaskId(2, 7))) == TaskId(2, 7)


def test_is_a_text_in_json_and_a_key_too() -> None:
    assert to_json(OWNERS) == b'{"owners":{"0_3":"a","1_10":"b"},"moved":["0_3"]}'
    assert from_json(to_json(OWNERS), Owners) == OWNERS
    assert from_plain(to_plain(OWNERS), Owners) == OWNERS


def test_json_with_a_malformed_task_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="expected <stage>_<partition>"):
        from_json(b'{"owners":{},"moved":["3"]}', Owners)
