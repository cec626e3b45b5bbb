from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.bases import deadline
from airflow_provider.bases.deadline import deadline_ms


class FakeStore:
    """A task's state over its tries."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(ms=1_000_000)
    monkeypatch.setattr(deadline, "now_ms", lambda: clock.ms)
    return clock


def tried(store: FakeStore, max_tries: int = 2) -> Any:
    return {"task_state_store": store, "ti": SimpleNamespace(max_tries=max_tries)}


def test_every_try_ends_when_the_first_would_have(clock: SimpleNamespace) -> None:
    store = FakeStore()
    first = deadline_ms(tried(store), 60.0, retries=2)
    clock.ms += 50_000

    assert first == 1_060_000
    assert deadline_ms(tried(store), 60.0, retries=2) == first


def test_try_after_the_deadline_looks_once_more(clock: SimpleNamespace) -> None:
    store = FakeStore()
    deadline_ms(tried(store), 60.0, retries=2)
    clock.ms += 3_600_000

    assert deadline_ms(tried(store), 60.0, retries=2) == clock.ms + 5_000


def test_cleared_task_begins_anew(clock: SimpleNamespace) -> None:
    store = FakeStore()
    deadline_ms(tried(store), 60.0, retries=2)
    clock.ms += 3_600_000

    assert deadline_ms(tried(store, max_tries=5), 60.0, retries=2) == clock.ms + 60_000


def test_next_step_has_its_own_time(clock: SimpleNamespace) -> None:
    store = FakeStore()
    deadline_ms(tried(store), 60.0, retries=2, step="generation 1")
    clock.ms += 50_000

    assert deadline_ms(tried(store), 60.0, retries=2, step="generation 2") == clock.ms + 60_000


def test_without_a_store_it_counts_from_now(clock: SimpleNamespace) -> None:
    assert deadline_ms({}, 60.0, retries=2) == deadline_ms(None, 60.0, retries=2) == 1_060_000
