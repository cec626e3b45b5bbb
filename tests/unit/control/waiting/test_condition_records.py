from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.waiting import condition_wait
from airflow_provider.control.waiting.condition_wait import ConditionRecords
from airflow_provider.control.waiting.evaluation import Needs
from airflow_provider.errors import TopicMissingError
from tests.builders import APPLICATION
from tests.unit.control.outlook.test_drill_age import PASSED

NOWHERE: Any = None


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which topics were read; the history holds one record, there is no metrics topic."""
    read: list[str] = []

    def history(*_: object, **__: object) -> tuple[HistoryRecord, ...]:
        read.append("history")
        return (PASSED,)

    def metrics(*_: object, **__: object) -> Any:
        read.append("metrics")
        raise TopicMissingError("Metrics topic 'app-metrics' does not exist")

    monkeypatch.setattr(condition_wait, "read_history", history)
    monkeypatch.setattr(condition_wait, "read_metrics", metrics)
    return read


def refreshed(needs: Needs, times: int = 1) -> ConditionRecords:
    records = ConditionRecords(APPLICATION, needs)
    for _ in range(times):
        asyncio.run(records.refresh(NOWHERE))
    return records


def test_nothing_is_read_that_is_not_needed(reads: list[str]) -> None:
    assert refreshed(Needs()).history == ()
    assert reads == []


def test_what_is_needed_is_not_read_at_every_look(reads: list[str]) -> None:
    assert refreshed(Needs(history=True), times=3).history == (PASSED,)
    assert reads == ["history"]


def test_it_is_read_again_when_it_is_old(reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condition_wait, "_EVERY_S", 0.0)

    refreshed(Needs(history=True), times=3)

    assert reads == ["history"] * 3


def test_topic_that_is_missing_is_said_so_and_looked_for_again(reads: list[str]) -> None:
    records = ConditionRecords(APPLICATION, Needs(growth_s=3_600.0))

    for _ in range(2):
        with pytest.raises(TopicMissingError, match="app-metrics"):
            asyncio.run(records.refresh(NOWHERE))
    assert reads == ["metrics"] * 2
