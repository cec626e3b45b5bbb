from __future__ import annotations

import pytest

from airflow_provider.cli import incident_closing
from airflow_provider.cli.incident_closing import close_incidents, not_assigned
from airflow_provider.control.records.history import HistoryOutcome, HistoryRecord
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.conditions import Outcome, WaitResult
from airflow_provider.kafka.connection import KafkaConnection
from tests.builders import APPLICATION, active, assigned, ended, instance, standby, view_of

RECORD = IncidentRecord(
    incident=ended("a", 0),
    answered_by="command-line-1",
    detected_at_ms=1_010,
    decided_at_ms=2_000,
    generation=2,
)


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        pytest.param(("a b", "b a"), None, id="all-were-given"),
        pytest.param(("a b", "b"), "task(s) 0_1 lack standbys, and need another instance", id="a-standby-is-missing"),
        pytest.param(("a b", "-"), "no instance has task(s) 0_1", id="nobody-has-it"),
    ],
)
def test_nothing_is_waited_for_that_no_instance_was_given(tasks: tuple[str, ...], why: str | None) -> None:
    assert not_assigned(view_of(assigned(*tasks)), 1) == why


class Closing:
    """An application with one incident that was answered, in place of its topics."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, view: ControlView, outcome: Outcome) -> None:
        self.history: list[HistoryRecord] = []
        self.written: list[IncidentRecord] = []
        view.incidents[RECORD.incident.id] = RECORD
        found = WaitResult(outcome=outcome, waited_for="", waited_s=1.0, seen="task 0_0 has 0 of 1 standbys")
        monkeypatch.setattr(incident_closing, "_read", lambda *_: view)
        monkeypatch.setattr(incident_closing, "wait_for", lambda *_, **__: found)
        monkeypatch.setattr(incident_closing, "note", lambda *given: self._noted(given[2]))
        monkeypatch.setattr(incident_closing, "write_control", lambda *given: self.written.append(given[2]))

    def _noted(self, record: HistoryRecord) -> bool:
        self.history.append(record)
        return True

    def close(self) -> None:
        close_incidents(KafkaConnection("127.0.0.1:1"), APPLICATION, 1, 1.0)


def whole() -> ControlView:
    return view_of(assigned("b a", generation=2), instance("a", standby(0)), instance("b", active(0, generation=2)))


def test_incident_is_resolved_once_every_task_is_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closing = Closing(monkeypatch, whole(), Outcome.MET)

    closing.close()

    (record,), (kept,) = closing.written, closing.history
    assert (record.resolved_at_ms is not None, record.in_history) == (True, True)
    assert (kept.outcome, kept.ended_at_ms) == (HistoryOutcome.PASSED, record.resolved_at_ms)
    assert capsys.readouterr().err == "resolved: a/1/gone-1\n"


@pytest.mark.parametrize(
    ("view", "outcome"),
    [
        pytest.param(whole(), Outcome.WAITING, id="not-in-time"),
        pytest.param(whole(), Outcome.FAILED, id="never"),
        pytest.param(view_of(assigned("b", generation=2)), Outcome.MET, id="without-standbys"),
    ],
)
def test_incident_stays_open_while_a_task_is_not_whole(
    view: ControlView, outcome: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closing = Closing(monkeypatch, view, outcome)

    closing.close()

    assert (closing.written, closing.history) == ([], [])
    assert capsys.readouterr().err.startswith("not resolved yet: a/1/gone-1: task")
