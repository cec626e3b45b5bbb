"""What a drill waits for, one after the other: that its fault is taken, that it is over, that redundancy is back."""

from __future__ import annotations

from airflow_provider.control.conditions import Condition, FaultTaken, IncidentResolved, StandbysWarm
from airflow_provider.control.injected_fault import InjectedFault

__all__ = ["fault_over", "fault_taken", "redundancy_back"]


def fault_taken(fault: InjectedFault) -> Condition:
    """The instance has done to itself what the drill asked.

    Args:
        fault: what was asked.
    """
    return FaultTaken(
        instance=fault.instance,
        incarnation=fault.incarnation,
        command=fault.id,
        ends_process=fault.spec.ends_process,
    )


def fault_over(fault: InjectedFault) -> Condition:
    """What has to follow has followed: the failure is answered and resolved.

    Args:
        fault: what was injected.
    """
    return IncidentResolved(fault.instance, fault.incarnation, fault.generation)


def redundancy_back(fault: InjectedFault, num_standby_replicas: int) -> Condition:
    """Every task runs and has its warm standbys, by an assignment that answers the fault.

    Args:
        fault: what was injected.
        num_standby_replicas: how many a task must have.
    """
    return StandbysWarm(num_standby_replicas=num_standby_replicas, generation=fault.generation + 1)
