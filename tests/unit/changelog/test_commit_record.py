from __future__ import annotations

import json

import pytest

from airflow_provider.changelog.commit_record import COMMIT_KEY, CommitRecord
from airflow_provider.errors import TopicMismatchError
from airflow_provider.state.position import RESERVED_PREFIX

RECORD = CommitRecord("orders", 3, 7, "i1", 1_700_000_000_000, 1_700_000_000_500, {"in": 42}, 40, {"no_amount": 2})


def read(data: bytes, application_id: str = "orders", task: int = 3) -> CommitRecord:
    return CommitRecord.from_bytes(data, application_id, task, "orders-state-changelog")


def test_reads_back_the_same() -> None:
    assert read(RECORD.to_bytes()) == RECORD


def test_is_json_that_people_can_read() -> None:
    assert json.loads(RECORD.to_bytes())["source_offsets"] == {"in": 42}


def test_lies_under_a_reserved_key() -> None:
    assert COMMIT_KEY.startswith(RESERVED_PREFIX)


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert read(json.dumps({**json.loads(RECORD.to_bytes()), "later": 1}).encode()) == RECORD


@pytest.mark.parametrize(
    ("data", "application_id", "task", "message"),
    [
        pytest.param(RECORD.to_bytes(), "payments", 3, "application 'orders', task 3", id="of-another-application"),
        pytest.param(RECORD.to_bytes(), "orders", 4, "application 'orders', task 3", id="of-another-task"),
        pytest.param(b"\x00", "orders", 3, "cannot be read", id="no-json"),
        pytest.param(b"{}", "orders", 3, "cannot be read", id="of-another-shape"),
    ],
)
def test_record_that_is_not_this_tasks_is_refused(data: bytes, application_id: str, task: int, message: str) -> None:
    with pytest.raises(TopicMismatchError, match=message) as caught:
        read(data, application_id, task)

    assert f"orders-state-changelog[{task}]" in str(caught.value)
