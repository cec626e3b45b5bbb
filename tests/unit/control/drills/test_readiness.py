from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.fault_injection import commands_of, inject_fault, plan_fault
from airflow_provider.control.drills.readiness import weakness
from airflow_provider.control.history.builder import drill_record
from airflow_provider.control.records.drill_fault import DRILLS, LONGEST_FAULT_S, DrillKind, InjectedFault
from airflow_provider.control.records.history import HistoryOutcome, HistoryRecord
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import FaultStatus, InstanceState, InstanceStatus, TaskState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import InstanceError
from tests.builders import active, assigned, instance, standby, view_of

NOW = 6
"""Epoch ms, just after the fault."""


class Publisher:
    """What one publisher wrote, the next one reads."""

    def __init__(self, view: ControlView) -> None:
        self.view = view
        self.history: list[HistoryRecord] = []

    def publish(self, _: None, *beside: Any) -> None:
        self.history += [value for value in beside if isinstance(value, HistoryRecord)]
        self.view.faults |= {value.id: value for value in beside if isinstance(value, InjectedFault)}


def first(**more: Any) -> InstanceStatus:
    return instance("a", active(0), standby(1), incarnation=7, **more)


def second(**more: Any) -> InstanceStatus:
    return instance("b", active(1), standby(0), incarnation=8, **more)


def whole() -> ControlView:
    return view_of(assigned("a b", "b a"), first(), second())


def inject(
    view: ControlView,
    fault_id: str,
    kind: DrillKind,
    on: str,
    history: tuple[HistoryRecord, ...] = (),
    standbys: int | None = 1,
) -> InjectedFault:
    publisher = cast(AssignmentPublisher, Publisher(view))
    return inject_fault(publisher, fault_id, on, Timeouts(), history, kind, num_standby_replicas=standbys, by="r")


def drilled(kind: DrillKind, on: str = "a") -> tuple[ControlView, InjectedFault]:
    view = whole()
    fault = plan_fault(view, "first", on, Timeouts(), [], kind, at_ms=5)
    view.faults[fault.id] = fault
    return view, fault


@pytest.mark.parametrize("kind", DrillKind)
def test_of_two_drills_that_begin_at_once_the_second_injects_nothing(kind: DrillKind) -> None:
    view = whole()
    inject(view, "first", kind, "a")

    with pytest.raises(InstanceError, match=rf"the fault of another drill, first \({kind} on a\), is not over"):
        inject(view, "second", DrillKind.CRASH, "b")

    assert list(view.faults) == ["first"]


@pytest.mark.parametrize("kind", DrillKind)
def test_another_try_of_the_same_drill_finds_its_fault(kind: DrillKind) -> None:
    view = whole()
    fault = inject(view, "first", kind, "a")

    assert inject(view, "first", kind, "a") == fault


def test_drill_is_in_the_history_with_its_fault_or_not_at_all() -> None:
    publisher = Publisher(whole())

    fault = inject_fault(cast(AssignmentPublisher, publisher), "first", "a", Timeouts(), (), DrillKind.CRASH, by="r")

    assert publisher.history == [drill_record("app", fault, "r")]
    assert publisher.history[0].outcome is HistoryOutcome.OPEN


def incident(resolved_at_ms: int | None) -> IncidentRecord:
    failed = Incident(
        application_id="app",
        kind=IncidentKind.TASK_FAILED,
        instance="a",
        incarnation=7,
        tasks=(TaskId(0, 0),),
        evidence="gone",
        generation=1,
    )
    return IncidentRecord(
        incident=failed, answered_by="r", detected_at_ms=6, decided_at_ms=7, generation=2, resolved_at_ms=resolved_at_ms
    )


def test_open_incident_forbids_a_fault_until_it_is_resolved() -> None:
    view = whole()
    view.incidents["i"] = incident(None)
    with pytest.raises(InstanceError, match="task_failed of a is answered and not repaired"):
        inject(view, "first", DrillKind.CRASH, "b")

    view.incidents["i"] = incident(9)
    inject(view, "first", DrillKind.CRASH, "b")


def test_task_without_its_standbys_forbids_a_fault() -> None:
    view = view_of(assigned("a b", "b"), instance("a", active(0)), instance("b", active(1), standby(0)))

    with pytest.raises(InstanceError, match="task 0_1 has 0 of 1 standbys"):
        inject(view, "first", DrillKind.CRASH, "a")
    inject(view, "first", DrillKind.CRASH, "a", standbys=None)


def test_task_that_failed_or_whose_standby_is_gone_forbids_a_fault() -> None:
    failed = instance("a", active(0, state=TaskState.FAILED, error="no"), standby(1), incarnation=7)
    view = view_of(assigned("a b", "b a"), failed, second())
    with pytest.raises(InstanceError, match="task 0_0 failed on a: no"):
        inject(view, "first", DrillKind.CRASH, "b", standbys=None)

    view = view_of(assigned("a b", "b a"), first(), second(state=InstanceState.ENDED))
    with pytest.raises(InstanceError, match="task 0_1 has not begun on b"):
        inject(view, "first", DrillKind.CRASH, "a", standbys=None)


@pytest.mark.parametrize("outcome", HistoryOutcome)
def test_drill_that_has_ended_by_the_history_forbids_none(outcome: HistoryOutcome) -> None:
    view, fault = drilled(DrillKind.CRASH)
    record = drill_record("app", fault, "r", outcome=outcome)

    assert (weakness(view, Timeouts(), [record], NOW) is None) == (outcome is not HistoryOutcome.OPEN)


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(
            lambda fault: [instance("a", active(0), standby(1), incarnation=9)], id="its process was replaced"
        ),
        pytest.param(lambda fault: [first(refusals={fault.id: "no faults"})], id="the instance refused it"),
    ],
)
def test_fault_of_which_nothing_can_come_any_more_forbids_none(now: Any) -> None:
    view, fault = drilled(DrillKind.CRASH)
    for status in now(fault):
        view.statuses[status.instance] = status

    assert weakness(view, Timeouts(), [], NOW) is None


def test_fault_whose_tasks_were_given_to_a_newer_generation_forbids_none() -> None:
    view, _ = drilled(DrillKind.STORE_LOST)
    view.assignment = assigned("a b", "b a", generation=2)
    view.statuses["a"] = instance("a", active(0, generation=2), standby(1), incarnation=7)
    view.statuses["b"] = instance("b", active(1, generation=2), standby(0), incarnation=8)

    assert weakness(view, Timeouts(), [], NOW) is None


def test_fault_that_lasts_forbids_another_until_its_instance_reports_its_end() -> None:
    view, fault = drilled(DrillKind.SHADOW_RESTORE)
    view.statuses["a"] = first(last_commands=(fault.id,), fault=FaultStatus(id=fault.id))
    assert weakness(view, Timeouts(), [], NOW) is not None

    view.statuses["a"] = first(last_commands=(fault.id,), fault=FaultStatus(id=fault.id, over=True))
    assert weakness(view, Timeouts(), [], NOW) is None


def test_fault_is_over_once_a_later_one_is_reported_in_its_place() -> None:
    view, fault = drilled(DrillKind.SHADOW_RESTORE)
    later = dataclasses.replace(fault, id="later", injected_at_ms=6)
    view.faults[later.id] = later
    view.statuses["a"] = first(fault=FaultStatus(id=later.id, over=True))

    assert weakness(view, Timeouts(), [], NOW) is None


@pytest.mark.parametrize("kind", [kind for kind, spec in DRILLS.items() if spec.until_moved])
def test_fault_that_nobody_answered_forbids_none_once_its_instance_goes_on_by_itself(kind: DrillKind) -> None:
    view, fault = drilled(kind)
    begun = [drill_record("app", fault, "r")]
    longest_ms = fault.injected_at_ms + round(1000 * LONGEST_FAULT_S)
    view.statuses["a"] = first(last_commands=(fault.id,))

    assert weakness(view, Timeouts(), begun, longest_ms) is not None
    assert weakness(view, Timeouts(), begun, longest_ms + 1) is None


def test_fault_that_its_instance_has_not_taken_or_that_it_does_not_outlive_goes_on_forbidding() -> None:
    view, fault = drilled(DrillKind.HANG)
    late = fault.injected_at_ms + round(2000 * LONGEST_FAULT_S)
    view.commands["a"] = {command.id: command for command in commands_of(fault)}
    assert "first (hang on a)" in str(weakness(view, Timeouts(), [], late))

    view.statuses["a"] = first(last_commands=(fault.id,))
    view.heard_at_ms["a"], view.newest_ms = 1, 60_001
    view.heard_at_ms["b"] = 60_001
    assert "first (hang on a)" in str(weakness(view, Timeouts(), [], late))


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        (
            DrillKind.CRASH,
            "once its failure is answered, by the failover DAG or the command 'failover', or a is started",
        ),
        (DrillKind.HANG, "once its tasks were given to others, 300 s after it began if a lives, or a is started again"),
        (DrillKind.ACTIVE_AND_STANDBY_LOST, "or a, b are started again"),
        (DrillKind.STANDBY_LOST, "once a has restored its copy, or a is started again"),
        (DrillKind.SHADOW_RESTORE, "once a reports its end, or a is started again"),
    ],
)
def test_fault_that_forbids_another_is_named_with_what_ends_it(kind: DrillKind, way: str) -> None:
    view, _ = drilled(kind)

    assert way in str(weakness(view, Timeouts(), [], NOW))
