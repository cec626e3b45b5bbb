"""Why an application is too weak for a drill's fault: a pure function of what the publisher of the fault has read."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.control.conditions import Outcome, StandbysWarm
from airflow_provider.control.drills.drill import open_incidents
from airflow_provider.control.drills.injected_fault import InjectedFault
from airflow_provider.control.drills.waits import fault_over
from airflow_provider.control.history.record import HistoryKind, HistoryOutcome, HistoryRecord
from airflow_provider.control.liveness import Timeouts
from airflow_provider.control.observation import Observation
from airflow_provider.control.view import ControlView

__all__ = ["open_fault", "weakness"]


def weakness(
    view: ControlView,
    timeouts: Timeouts,
    history: Sequence[HistoryRecord],
    num_standby_replicas: int | None = None,
) -> str | None:
    """What forbids another fault now; None where nothing does.

    Two drills that were found ready at the same moment would otherwise take the last copies of a task together.

    Args:
        view: the newest, read by the publisher that would write the fault.
        timeouts: by which instances are found to live.
        history: of the application: a drill that has ended there is over.
        num_standby_replicas: how many warm standbys a task must have; None for all that it is assigned.
    """
    for fault in view.faults.values():
        if open_fault(fault, view, timeouts, history):
            return f"the fault of another drill, {fault.id} ({fault.kind.value} on {fault.instance}), is not over"
    if (incidents := open_incidents(view)) != ():
        return incidents[0]
    found = StandbysWarm(num_standby_replicas=num_standby_replicas).evaluate(_look(view, timeouts))
    return None if found.outcome is Outcome.MET else found.seen


def open_fault(fault: InjectedFault, view: ControlView, timeouts: Timeouts, history: Sequence[HistoryRecord]) -> bool:
    """Whether what a drill's fault leads to may still come.

    A fault that nobody answered is over, too, once nothing can come of it any more: its processes are gone or refused
    it, or its tasks were given to other generations. Whether the application is whole then is another question.

    Args:
        fault: of the drill.
        view: the newest.
        timeouts: by which instances are found to live.
        history: of the application.
    """
    if any(
        (record.kind, record.id) == (HistoryKind.DRILL, fault.id) and record.outcome is not HistoryOutcome.OPEN
        for record in history
    ):
        return False
    if all(_is_gone(name, incarnation, fault, view) for name, incarnation in fault.processes.items()):
        return False
    if fault.spec.cause is not None and _has_moved(fault, view):
        return False
    status = view.statuses.get(fault.instance)
    reported = None if status is None or status.fault is None else view.faults.get(status.fault.id)
    if fault.spec.reports and reported is not None and reported.injected_at_ms > fault.injected_at_ms:
        return False
    return fault_over(fault).evaluate(_look(view, timeouts)).outcome is Outcome.WAITING


def _look(view: ControlView, timeouts: Timeouts) -> Observation:
    return Observation(view, silent_for_s=view.silent_for_s, timeouts=timeouts)


def _is_gone(name: str, incarnation: int, fault: InjectedFault, view: ControlView) -> bool:
    status = view.statuses.get(name)
    if status is None or status.incarnation != incarnation:
        return status is not None and status.incarnation > incarnation
    return not status.state.alive or fault.id in status.refusals


def _has_moved(fault: InjectedFault, view: ControlView) -> bool:
    given = view.assignment.tasks if view.assignment else {}
    return bool(fault.tasks) and all(
        task_id in given and given[task_id].active_since > fault.generation for task_id in fault.tasks
    )
