"""What can be waited for: pure functions of an observation."""

from __future__ import annotations

from airflow_provider.control.conditions.evaluation import Condition, Evaluation, Outcome
from airflow_provider.control.conditions.fault import FaultEnded, FaultTaken
from airflow_provider.control.conditions.incident import IncidentResolved
from airflow_provider.control.conditions.instance import (
    CommandDone,
    InstanceEnded,
    InstanceInState,
    InstanceRunning,
)
from airflow_provider.control.conditions.pause import ProcessingPaused
from airflow_provider.control.conditions.predicted_rto import PredictedRtoWithin
from airflow_provider.control.conditions.replay import TasksReplayed
from airflow_provider.control.conditions.serialization import from_plain
from airflow_provider.control.conditions.snapshot import SnapshotsTaken
from airflow_provider.control.conditions.standby import StandbysWarm
from airflow_provider.control.conditions.task import TaskInState, TasksRunning
from airflow_provider.control.conditions.wait_result import WaitResult

__all__ = [
    "CommandDone",
    "Condition",
    "Evaluation",
    "FaultEnded",
    "FaultTaken",
    "IncidentResolved",
    "InstanceEnded",
    "InstanceInState",
    "InstanceRunning",
    "Outcome",
    "PredictedRtoWithin",
    "ProcessingPaused",
    "SnapshotsTaken",
    "StandbysWarm",
    "TaskInState",
    "TasksReplayed",
    "TasksRunning",
    "WaitResult",
    "from_plain",
]
