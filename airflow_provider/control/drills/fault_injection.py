"""Injecting a drill's fault, once."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.continuity import changelog_positions, source_offsets, standbys_certified
from airflow_provider.control.drills.readiness import choose_hit, rto_problem, weakness
from airflow_provider.control.history.builder import drill_record
from airflow_provider.control.outlook.predicted_rto import PredictedRto, predict_rto, worst_rto_ms
from airflow_provider.control.records.command import Command
from airflow_provider.control.records.drill_fault import DRILLS, DrillKind, InjectedFault, OutputCut, Victim
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import InstanceError

if TYPE_CHECKING:
    from airflow_provider.control.topics.publisher import AssignmentPublisher


def inject_fault(
    publisher: AssignmentPublisher,
    fault_id: str,
    instance: str | None,
    timeouts: Timeouts,
    history: Sequence[HistoryRecord],
    kind: DrillKind = DrillKind.CRASH,
    max_rto_s: float | None = None,
    outputs: OutputCut | None = None,
    num_standby_replicas: int | None = None,
    *,
    by: str,
) -> InjectedFault:
    """Have instances do it to themselves; what was the case is noted in the same transaction as the commands.

    So is the drill in the history, as open: wherever it is ended from then on, it has left word.

    Args:
        fault_id: where a fault of this id is noted already, nothing is done.
        num_standby_replicas: how many warm standbys each task must have; None for all that it is assigned.
        by: the run, for the history, whose topic has to exist.

    Raises:
        AssignmentError: nothing is assigned yet.
        InstanceError: no instance lives, the named one does not, or it holds no task that could be hit; or the failover
            is predicted to take longer than promised; or another drill's fault is not over, an incident is open, or a
            task lacks a warm standby. Nothing was written.
        FencedError: a newer publisher exists. Nothing was written.
    """
    noted = publisher.view.faults.get(fault_id)
    if noted is not None:
        return noted
    at_ms = now_ms()
    fault = plan_fault(publisher.view, fault_id, instance, timeouts, history, kind, at_ms, max_rto_s, outputs)
    # Only here, in what a fenced publisher has read to its end, can two drills that begin at once see each other.
    if (why := weakness(publisher.view, timeouts, history, at_ms, num_standby_replicas)) is not None:
        raise InstanceError(
            f"{publisher.view.application_id!r} is not ready for a drill any more, so nothing was done: {why}. Drill "
            "again once it is whole."
        )
    begun = drill_record(publisher.view.application_id, fault, by)
    publisher.publish(None, fault, begun, *commands_of(fault))
    return fault


def plan_fault(
    view: ControlView,
    fault_id: str,
    instance: str | None,
    timeouts: Timeouts,
    history: Sequence[HistoryRecord],
    kind: DrillKind,
    at_ms: int,
    max_rto_s: float | None = None,
    outputs: OutputCut | None = None,
) -> InjectedFault:
    """Whom a drill hits, and what was the case before: a pure function.

    Raises:
        AssignmentError: nothing is assigned yet.
        InstanceError: as `inject_fault`.
    """
    spec, healthy = DRILLS[kind], view.healthy(timeouts)
    assignment, hit = view.assignment, choose_hit(view, kind, instance, healthy)
    tasks, copies = hit.tasks, {name: view.statuses[name].incarnation for name in hit.copies}
    predicted: list[PredictedRto] = []
    if spec.cause is not None:
        found = predict_rto(_without_copies(view, tasks, copies), history, healthy, timeouts, spec.cause)
        predicted = [found[task_id] for task_id in tasks if task_id in found]
    if (problem := rto_problem(predicted, max_rto_s)) is not None:
        raise InstanceError(f"A drill {kind.value} of {view.application_id!r} would break its promise: {problem}")
    return InjectedFault(
        id=fault_id,
        kind=kind,
        instance=hit.instance,
        incarnation=view.statuses[hit.instance].incarnation,
        generation=assignment.generation if assignment else 0,
        tasks=tasks,
        copies=copies,
        source_offsets=source_offsets(view),
        positions=changelog_positions(view),
        certified=standbys_certified(view),
        injected_at_ms=at_ms,
        predicted_rto_ms=worst_rto_ms(predicted),
        outputs=outputs,
    )


def commands_of(fault: InjectedFault) -> list[Command]:
    """What each instance is asked."""
    spec = fault.spec
    of_stores = spec.victim is not Victim.INSTANCE
    return [
        Command(
            id=fault.id,
            kind=spec.command,
            instance=name,
            incarnation=incarnation,
            tasks=fault.tasks,
            generation=fault.generation if of_stores else None,
        )
        for name, incarnation in fault.processes.items()
    ]


def _without_copies(view: ControlView, tasks: Collection[TaskId], copies: Collection[str]) -> ControlView:
    """As it is once these copies are gone."""
    left = {
        name: dataclasses.replace(status, tasks=tuple(task for task in status.tasks if task.task not in tasks))
        for name, status in view.statuses.items()
        if name in copies
    }
    return dataclasses.replace(view, statuses={**view.statuses, **left})
