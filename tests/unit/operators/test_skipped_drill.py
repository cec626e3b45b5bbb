from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.control.records.drill_fault import DrillKind
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import InstanceError
from airflow_provider.operators import checks
from airflow_provider.operators.checks import CheckDrillReadinessOperator, SkippedDrillNote
from tests.unit.operators.test_history_of_failovers import FAULT


class Hook:
    """The topics of an application."""

    def __init__(self, view: ControlView) -> None:
        self.view = view
        self.history: list[HistoryRecord] = []

    def read(self, _: str) -> ControlView:
        return self.view

    def write_history(self, _: str, *records: HistoryRecord, timeout_s: float) -> None:
        self.history += records


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Hook:
    made = Hook(ControlView("orders"))
    monkeypatch.setattr(checks, "KafkaStreamsHook", lambda _: made)
    return made


def context() -> Any:
    task = CheckDrillReadinessOperator(task_id="check_watch", application_id="orders")
    ti = SimpleNamespace(dag_id="orders_drill", run_id="run-1")
    why = InstanceError("'orders' is not ready for a drill:\n  - nothing watches it")
    return {"task": task, "ti": ti, "run_id": "run-1", "exception": why, "params": {"kind": "hang"}}


def test_drill_that_was_refused_is_in_the_history_with_the_reason(hook: Hook) -> None:
    SkippedDrillNote("{{ params.kind }}")(context())

    (record,) = hook.history
    assert (record.kind, record.id, record.by) == (HistoryKind.DRILL, "orders_drill/run-1/skipped", "run-1")
    assert (record.outcome, record.cause) == (HistoryOutcome.SKIPPED, DrillKind.HANG.value)
    assert record.reason == "check_watch: 'orders' is not ready for a drill: - nothing watches it"


def test_drill_that_has_begun_keeps_its_own_record(hook: Hook) -> None:
    fault = dataclasses.replace(FAULT, id="orders_drill/run-1/inject_fault/-1")
    hook.view.faults[fault.id] = fault

    SkippedDrillNote("crash")(context())

    assert hook.history == []
