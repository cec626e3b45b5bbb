from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from airflow_provider.changelog.commit_record import LastCommit
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import TopicMismatchError
from airflow_provider.state.position import Position
from airflow_provider.state.store import Store
from tests.builders import commit_of


def raw(sequence: int, application_id: str = "app") -> bytes:
    return commit_of(application_id=application_id, sequence=sequence).to_bytes()


def test_record_follows_the_store() -> None:
    store = SimpleNamespace(position=None)
    last = LastCommit(cast(Store, store), "app", TaskId(0, 0), "app-state-changelog")
    assert last.read() is None

    for sequence in (1, 2):
        store.position = Position(commit=raw(sequence))
        record = last.read()
        assert record is not None
        assert record.sequence == sequence
        assert last.read() is record, "decoded once"


def test_record_of_another_application_is_refused_again_and_again() -> None:
    store = SimpleNamespace(position=Position(commit=raw(1, "another")))
    last = LastCommit(cast(Store, store), "app", TaskId(0, 0), "app-state-changelog")

    for _ in range(2):
        with pytest.raises(TopicMismatchError):
            last.read()
