"""When a history that cannot be written is an error, and when it is not."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import jinja2
import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills import rehearsal
from airflow_provider.control.drills.rehearsal import Rehearsal
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.records.history import (
    HistoryKind,
    HistoryOutcome,
    HistoryRecord,
    OutputCheck,
    OutputCount,
)
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import BrokerUnreachableError, DeadlineError, InstanceError, StateError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.links import FailoverRun
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.drill import CheckRecoveryOperator
from airflow_provider.operators.repair import ReportFailOverOperator
from tests.builders import APPLICATION, active, assigned, ended, instance, promoted, standby, view_of

TASK = TaskId(0, 0)
RECORD = IncidentRecord(
    incident=ended("a", 0),
    answered_by="failover-1",
    answered_by_dag="app_failover",
    detected_at_ms=1_010,
    decided_at_ms=2_000,
    generation=2,
    plan=(promoted(0, "b"),),
    failed_at_ms=1_000,
)
FAULT = InjectedFault(
    id="drill/run-1/inject_fault/-1",
    instance="a",
    incarnation=1,
    generation=1,
    tasks=(TASK,),
    source_offsets={TASK: 40},
    injected_at_ms=900,
)
CONTEXT: Any = {"run_id": "run-1", "ti": SimpleNamespace(map_index=-1)}
WHOLE: Any = {"outcome": "met", "seen": "", "waited_for": "", "waited_s": 1.0, "result": {}}


class Hook:
    """The topics of an application, whose history may take nothing."""

    made: ClassVar[Hook]

    def __init__(self, view: ControlView, *, takes_history: bool = True) -> None:
        Hook.made = self
        self.view, self.takes_history = view, takes_history
        self.history: list[HistoryRecord] = []
        self.outputs = OutputCheck(counts=(OutputCount(topic="out", committed=7, found=7),))
        self.connection = KafkaConnection("nowhere:1")

    def read(self, _: str) -> ControlView:
        return self.view

    def write(self, _: str, record: IncidentRecord) -> None:
        self.view.incidents[record.incident.id] = record

    def write_history(self, _: str, *records: HistoryRecord, timeout_s: float = 10.0) -> None:
        if not self.takes_history:
            raise BrokerUnreachableError(f"not stored within {timeout_s:g} s")
        self.history += records


def recovered(record: IncidentRecord = RECORD, resumed_offset: int = 41, **more: Any) -> ControlView:
    owner = {"owned_at_ms": 2_100, "first_commit_at_ms": 2_500, "resumed_offset": resumed_offset, **more}
    b = instance("b", active(0, generation=2, source_offset=90, **owner))
    view = view_of(assigned("b a", generation=2), b, instance("a", standby(0), incarnation=2))
    view.incidents[record.incident.id] = record
    return view


def with_hook(operator: ControlOperator, hook: Hook) -> Any:
    vars(operator)["hook"] = hook
    return operator


class Reader:
    """Of the topics of the hook that was made last."""

    @property
    def view(self) -> ControlView:
        return Hook.made.view

    def read_to_end(self) -> ControlView:
        return self.view


@pytest.fixture(autouse=True)
def _on_topics_of_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rehearsal reaches the topics of the hook that was made last."""
    monkeypatch.setattr(Rehearsal, "_reader", lambda _: nullcontext(Reader()))
    monkeypatch.setattr(rehearsal, "read_commits", lambda *_: {})
    monkeypatch.setattr(rehearsal, "count_outputs", lambda *_, **__: Hook.made.outputs)
    monkeypatch.setattr(rehearsal, "write_history", lambda _, *given: Hook.made.write_history(*given))


def check(hook: Hook, **more: Any) -> CheckRecoveryOperator:
    arguments = {"task_id": "check", "application_id": APPLICATION, "fault": to_plain(FAULT), **more}
    checking: CheckRecoveryOperator = with_hook(CheckRecoveryOperator(**arguments), hook)
    return checking


def test_drill_that_is_passed_is_in_the_history() -> None:
    hook = Hook(recovered())

    checking = check(hook, max_rto_s=2)
    checking.execute_complete(CONTEXT, WHOLE)

    assert checking.linked_run == FailoverRun("app_failover", "failover-1")
    (drill,) = hook.history
    assert (drill.kind, drill.id, drill.outcome) == (HistoryKind.DRILL, FAULT.id, HistoryOutcome.PASSED)
    assert (drill.rto.total_ms, drill.slo_met, drill.rpo.doubled_records) == (1_500, True, 0)
    assert drill.outputs == hook.outputs


def test_drill_whose_outputs_are_not_those_of_its_commits_is_failed_with_the_figures() -> None:
    hook = Hook(recovered())
    hook.outputs = OutputCheck(counts=(OutputCount(topic="out", committed=7, found=5),))

    checking = check(hook)
    with pytest.raises(StateError, match="2 are missing"):
        checking.execute_complete(CONTEXT, WHOLE)

    (drill,) = hook.history
    assert (drill.outcome, drill.outputs) == (HistoryOutcome.FAILED, hook.outputs)
    assert checking.linked_run == FailoverRun("app_failover", "failover-1")


def test_drill_whose_outputs_cannot_be_counted_is_passed_and_says_so() -> None:
    hook = Hook(recovered())
    hook.outputs = OutputCheck(unmeasured="the job has no sink")

    checked = check(hook).execute_complete(CONTEXT, WHOLE)

    assert checked["outputs"] == {"counts": [], "unmeasured": "the job has no sink"}
    assert hook.history[0].outcome is HistoryOutcome.PASSED


@pytest.mark.parametrize(
    ("view", "event", "outcome", "error"),
    [
        pytest.param(recovered(resumed_offset=39), WHOLE, HistoryOutcome.FAILED, StateError, id="commits-lost"),
        pytest.param(
            recovered(), {**WHOLE, "outcome": "waiting"}, HistoryOutcome.FAILED, DeadlineError, id="not-whole"
        ),
        pytest.param(recovered(first_commit_at_ms=4_000), WHOLE, HistoryOutcome.FAILED, InstanceError, id="too-late"),
        pytest.param(
            recovered(first_commit_at_ms=None, stalled_s=0.0, source_lag=0),
            WHOLE,
            HistoryOutcome.SKIPPED,
            InstanceError,
            id="no-input",
        ),
    ],
)
@pytest.mark.parametrize("takes_history", [True, False])
def test_drill_that_is_not_passed_fails_by_what_was_found_and_says_so_in_the_history(
    view: ControlView, event: Any, outcome: HistoryOutcome, error: type[Exception], takes_history: bool
) -> None:
    hook = Hook(view, takes_history=takes_history)

    with pytest.raises(error) as raised:
        check(hook, max_rto_s=2).execute_complete(CONTEXT, event)

    assert [(drill.outcome, drill.reason) for drill in hook.history] == [(outcome, str(raised.value))] * takes_history


def test_drill_that_leaves_no_record_is_not_passed() -> None:
    with pytest.raises(BrokerUnreachableError):
        check(Hook(recovered(), takes_history=False)).execute_complete(CONTEXT, WHOLE)


class Hooked(ReportFailOverOperator):
    """Writes its history by the hook that it was given."""

    def note_history(self, records: Any, *_: Any) -> bool:
        try:
            self.hook.write_history(APPLICATION, *records)
        except BrokerUnreachableError:
            return False
        return True


def report(hook: Hook) -> IncidentRecord:
    operator = Hooked(task_id="report", application_id=APPLICATION, incident_id=RECORD.incident.id, max_rto_s=2)
    with_hook(operator, hook).execute(CONTEXT)
    return hook.view.incidents[RECORD.incident.id]


def test_report_completes_the_record_and_notes_that_the_history_has_it() -> None:
    hook = Hook(recovered())

    resolved = report(hook)

    assert resolved.in_history
    (failover,) = hook.history
    assert (failover.outcome, failover.ended_at_ms) == (HistoryOutcome.PASSED, resolved.resolved_at_ms)
    assert (failover.rto.total_ms, failover.slo_met) == (1_500, True)


def test_incident_that_the_history_does_not_take_is_resolved_and_remembered_and_tried_again() -> None:
    hook = Hook(recovered(), takes_history=False)

    resolved = report(hook)
    assert resolved.resolved_at_ms is not None
    assert not resolved.in_history

    hook.takes_history = True
    assert report(hook) == dataclasses.replace(resolved, in_history=True)
    assert len(hook.history) == 1


def test_report_of_several_failovers_says_of_each_what_it_came_to_where_the_task_is_listed() -> None:
    hook, given = Hook(recovered()), context()
    operator = Hooked(task_id="report", application_id=APPLICATION, incident_id=[RECORD.incident.id, "absent"])

    with pytest.raises(InstanceError, match="Incident 'absent' of 'app' has no record"):
        with_hook(operator, hook).execute(cast(Any, given))

    assert hook.view.incidents[RECORD.incident.id].resolved_at_ms is not None
    assert shown(given) == "a instance_ended: output again after 1.5 s, 0 records replayed"


def test_report_of_no_failover_is_skipped() -> None:
    operator = Hooked(task_id="report", application_id=APPLICATION, incident_id=[])

    with pytest.raises(AirflowSkipException):
        with_hook(operator, Hook(recovered())).execute(CONTEXT)


def test_outcome_is_cut_is_no_template_and_leaves_the_owners_own_alone() -> None:
    operator = Hooked(task_id="report", application_id=APPLICATION, incident_id="i")
    plain, own = context(), {**context(), "map_index_template": "mine"}

    operator.show_outcome(cast(Any, plain), "{{ run_id }}" + 300 * "x")
    operator.show_outcome(cast(Any, own), "theirs")

    assert shown(plain) == "{{ run_id }}" + 238 * "x"
    assert shown(own) == "mine"


def context() -> dict[str, Any]:
    """Of a try: a task notes its outcome in it."""
    return {"run_id": "run-1", "ti": SimpleNamespace(map_index=-1), "map_index_template": None}


def shown(given: dict[str, Any]) -> str:
    """As Airflow renders it behind the task."""
    return jinja2.Environment().from_string(given["map_index_template"]).render(given)
