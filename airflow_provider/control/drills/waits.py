"""What a drill waits for, one after the other: that its fault is taken, that it is over, that redundancy is back."""

from __future__ import annotations

from airflow_provider.control.records.drill_fault import InjectedFault, Victim
from airflow_provider.control.waiting.conditions import (
    Condition,
    FaultEnded,
    FaultTaken,
    IncidentResolved,
    StandbysWarm,
    TasksReplayed,
)


def fault_taken(fault: InjectedFault) -> Condition:
    """The instances have done to themselves what the drill asked."""
    spec = fault.spec
    return FaultTaken(
        processes=fault.processes,
        command=fault.id,
        tasks=() if spec.victim is Victim.INSTANCE or spec.reports else fault.tasks,
        ends_process=spec.ends_process,
    )


def fault_over(fault: InjectedFault) -> Condition:
    """What has to follow has followed: the failure is resolved, the copy whole again, or the instance says so."""
    if fault.spec.reports:
        return FaultEnded(fault.instance, fault.incarnation, fault.id)
    if fault.spec.cause is None:
        return TasksReplayed(fault.instance, fault.id, fault.tasks)
    return IncidentResolved(fault.instance, fault.incarnation, fault.generation)


def redundancy_back(fault: InjectedFault, num_standby_replicas: int) -> Condition:
    """Every task runs and has its warm standbys, by an assignment that answers the fault where one has to.

    Where the standbys were certified before the fault, they have to be again: their digests are those of their actives.

    Args:
        num_standby_replicas: how many a task must have.
    """
    answered = fault.spec.cause is not None
    return StandbysWarm(
        num_standby_replicas=num_standby_replicas,
        generation=fault.generation + answered,
        certified=fault.certified,
    )
