"""Sensors on states: of instances, tasks, incidents and drills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context, XComArg

from airflow_provider.bases.arguments import parse_optional, parse_seconds
from airflow_provider.common.json_codec import from_plain
from airflow_provider.common.task_id import TaskId, parse_task
from airflow_provider.control.drills.readiness import fault_over
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.records.status import InstanceState, TaskState
from airflow_provider.control.waiting.evaluation import Condition
from airflow_provider.control.waiting.instance import InstanceInState
from airflow_provider.control.waiting.recovery import DrillPassedWithin, IncidentResolved
from airflow_provider.control.waiting.task import TaskInState
from airflow_provider.links import FailoverRun, FailoverRunLink, InstanceLogLink, SparkUiLink
from airflow_provider.sensors.control import ControlSensor


class InstanceStateSensor(ControlSensor):
    """Waits until an instance is in one of some states. One that sends no heartbeat counts as ended.

    Args:
        states: ``starting``, ``running``, ``stopping``, ``stopped``, ``ended``: one or several.

    Returns:
        The instance's handle.

    Raises:
        DeadlineError: it took too long; says what was last seen.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "instance", "states")
    operator_extra_links = (InstanceLogLink(), SparkUiLink())

    def __init__(
        self, *, application_id: str, instance: str, states: str | Sequence[str] = ("running",), **kwargs: Any
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.instance = instance
        self.states = states

    def condition(self) -> Condition:
        states = self.states.split(",") if isinstance(self.states, str) else self.states
        return InstanceInState(self.instance, tuple(InstanceState(state.strip()) for state in states))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        handle: dict[str, Any] = super().execute_complete(context, event)
        self.linked_instance = from_plain(handle, InstanceHandle)
        return handle


class TaskStateSensor(ControlSensor):
    """Waits until a task of the application is in one of some states, on its active or on a named instance.

    Args:
        task: the application's task, such as ``0_3`` (not an Airflow task).
        states: ``owning``, ``restoring``, ``running``, ``following``, ``failed``, ``closed``: one or several.
        instance: where; None for the assigned active.

    Returns:
        ``task``, ``instance``, ``state``.

    Raises:
        DeadlineError: it took too long; says what was last seen.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "task", "states", "instance")

    def __init__(
        self,
        *,
        application_id: str,
        task: TaskId | str,
        states: str | Sequence[str] = ("running",),
        instance: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.task = task
        self.states = states
        self.instance = instance

    def condition(self) -> Condition:
        states = self.states.split(",") if isinstance(self.states, str) else self.states
        return TaskInState(parse_task(self.task), tuple(TaskState(s.strip()) for s in states), self.instance or None)


class IncidentResolutionSensor(ControlSensor):
    """Waits for the record of an instance's failure to be marked resolved, as the failover DAG does at its end.

    Args:
        instance: the instance that fails.

    Returns:
        ``incident_id``, the ``generation`` that answered it, and which run did (``answered_by``, ``answered_by_dag``).

    Raises:
        DeadlineError: it took too long; says how far it came.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "instance", "incarnation")
    operator_extra_links = (FailoverRunLink(),)

    def __init__(self, *, application_id: str, instance: str, incarnation: int | str, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.instance = instance
        self.incarnation = incarnation

    def condition(self) -> Condition:
        return IncidentResolved(self.instance, int(self.incarnation))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = super().execute_complete(context, event)
        if found["answered_by_dag"] is not None:
            self.linked_run = FailoverRun(found["answered_by_dag"], found["answered_by"])
        return found


class FaultEndSensor(ControlSensor):
    """Waits for what has to follow a drill's fault: that the failure is answered and marked resolved.

    Args:
        fault: what `InjectFaultOperator` returned.

    Returns:
        ``incident_id`` and the ``generation`` that answered it.

    Raises:
        DeadlineError: it took too long; says how far it came.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "fault")

    def __init__(self, *, application_id: str, fault: Mapping[str, Any] | XComArg, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.fault: Mapping[str, Any] = fault  # type: ignore[assignment]  # rendered before it is used

    def condition(self) -> Condition:
        return fault_over(from_plain(dict(self.fault), InjectedFault))


class DrillAgeSensor(ControlSensor):
    """Waits until the last drill that was passed is young enough, by the application's history, read every 20 s.

    Args:
        max_age_s: how old it may be, in seconds.
        kind: only drills of this kind, such as ``"crash"``; None for any.

    Returns:
        ``id``, ``cause`` and ``passed_at_ms`` of that drill.

    Raises:
        DeadlineError: it took too long; says how old the last one is, and how later ones ended.
        TopicMissingError: the application has no history.
    """

    template_fields: Sequence[str] = (*ControlSensor.template_fields, "max_age_s", "kind")

    def __init__(self, *, application_id: str, max_age_s: float | str, kind: str | None = None, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.max_age_s = max_age_s
        self.kind = kind

    def condition(self) -> Condition:
        return DrillPassedWithin(max_age_s=parse_seconds("max_age_s", self.max_age_s), cause=parse_optional(self.kind))
