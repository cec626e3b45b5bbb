"""What can be waited for: pure functions of an observation."""

from __future__ import annotations

from airflow_provider.control.conditions.incident import IncidentResolved
from airflow_provider.control.conditions.instance import CommandObeyed, InstanceEnded, InstanceInState, InstanceRunning
from airflow_provider.control.conditions.plain import from_plain, to_plain
from airflow_provider.control.conditions.replay import TasksReplayed
from airflow_provider.control.conditions.standby import StandbysWarm
from airflow_provider.control.conditions.task import TaskInState, TasksRunning
from airflow_provider.control.conditions.verdict import Condition, Outcome, Verdict

__all__ = [
    "CommandObeyed",
    "Condition",
    "IncidentResolved",
    "InstanceEnded",
    "InstanceInState",
    "InstanceRunning",
    "Outcome",
    "StandbysWarm",
    "TaskInState",
    "TasksReplayed",
    "TasksRunning",
    "Verdict",
    "from_plain",
    "to_plain",
]
