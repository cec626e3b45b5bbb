"""Injecting a drill's fault, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider.common.clock import now_ms
from airflow_provider.control.command import Command
from airflow_provider.control.drill import choose_victim, source_offsets
from airflow_provider.control.drill_kind import DRILLS, DrillKind
from airflow_provider.control.history_record import HistoryRecord
from airflow_provider.control.injected_fault import InjectedFault
from airflow_provider.control.liveness import Timeouts
from airflow_provider.control.predicted_rto import predict_rto, worst_rto_ms

if TYPE_CHECKING:
    from airflow_provider.control.publisher import AssignmentPublisher

__all__ = ["inject_fault"]


def inject_fault(
    publisher: AssignmentPublisher,
    fault_id: str,
    instance: str | None,
    timeouts: Timeouts,
    history: Sequence[HistoryRecord],
    kind: DrillKind = DrillKind.CRASH,
) -> InjectedFault:
    """Have an instance do it to itself; what was the case is noted in the same transaction as the command.

    Args:
        publisher: has read the newest state.
        fault_id: where a fault of this id is noted already, nothing is done.
        instance: which is to fail; None takes the one with the most active tasks.
        timeouts: by which instances are found to live.
        history: of the application, by which the RTO is predicted.
        kind: of the drill.

    Raises:
        AssignmentError: nothing is assigned yet.
        InstanceError: no instance lives, or the named one does not.
        FencedError: a newer publisher exists. Nothing was written.
    """
    view = publisher.view
    noted = view.faults.get(fault_id)
    if noted is not None:
        return noted
    healthy = view.healthy(timeouts)
    victim = choose_victim(view, healthy, instance)
    predicted = predict_rto(view, history, healthy, timeouts, DRILLS[kind].cause)
    fault = InjectedFault(
        id=fault_id,
        kind=kind,
        instance=victim,
        incarnation=view.statuses[victim].incarnation,
        generation=view.assignment.generation if view.assignment else 0,
        tasks=view.assignment.active_on(victim) if view.assignment else (),
        source_offsets=source_offsets(view),
        injected_at_ms=now_ms(),
        predicted_rto_ms=worst_rto_ms([one for one in predicted.values() if one.active == victim]),
    )
    asked = Command(id=fault.id, kind=fault.spec.command, instance=victim, incarnation=fault.incarnation)
    publisher.publish(None, fault, asked)
    return fault
