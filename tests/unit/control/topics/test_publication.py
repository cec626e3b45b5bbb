from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_provider.control.topics.publisher import retry_fenced
from airflow_provider.errors import FencedError, InstanceError


def test_fenced_publisher_publishes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider.control.topics.publisher.time", SimpleNamespace(sleep=lambda _: None))
    attempts = iter([FencedError("a newer publisher took over"), None])

    def publish() -> int:
        if (error := next(attempts)) is not None:
            raise error
        return 2

    assert retry_fenced(publish, "app") == 2


def test_other_error_ends_it() -> None:
    attempts: list[int] = []

    def publish() -> None:
        attempts.append(1)
        raise InstanceError("it ended")

    with pytest.raises(InstanceError):
        retry_fenced(publish, "app")

    assert len(attempts) == 1
