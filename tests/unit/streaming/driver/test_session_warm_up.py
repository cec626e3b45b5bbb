from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.streaming.driver import session_warm_up
from airflow_provider.streaming.driver.session_warm_up import warm_up_session
from tests.unit.streaming.driver.fakes import FakeRows, compiled


class FakeSource:
    """A query that finds so many records, or fails."""

    def __init__(self, records: int, error: Exception | None = None) -> None:
        self.records, self.error = records, error
        self.active = self.waits_for_data = self.left = self.ended = False
        self.active_for_s = 0.0
        self.checkpoint: Path | None = None

    def __call__(self, _spark: Any, _source: Any, _connection: Any, _tasks: Any, checkpoint: Path, drop: Any) -> Any:
        self.checkpoint, self._drop = checkpoint, drop
        return self

    def start(self) -> None:
        self.active = True
        if self.error is not None:
            raise self.error
        if self.records:
            self._drop(self, FakeRows(lambda: ()))
        self.waits_for_data = True

    def leave(self) -> None:
        self.left = True

    def end(self) -> None:
        self.active, self.ended = False, True


def warm_up(source: FakeSource, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(session_warm_up, "SourceQuery", source)
    spark: Any = None
    return warm_up_session(spark, compiled().stages[0], KafkaConnection("nowhere:1"), folder)


def test_one_micro_batch_runs_and_the_query_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FakeSource(records=3)

    assert warm_up(source, tmp_path, monkeypatch) is True
    assert (source.left, source.ended, source.checkpoint) == (True, True, tmp_path)


def test_empty_source_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FakeSource(records=0)

    assert warm_up(source, tmp_path, monkeypatch) is False
    assert source.ended


def test_failure_keeps_no_instance_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert warm_up(FakeSource(0, RuntimeError("no such topic")), tmp_path, monkeypatch) is False
    assert "the query that warms Spark up failed: no such topic" in caplog.text
