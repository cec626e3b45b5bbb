"""What can be waited for: pure functions of an observation."""

from __future__ import annotations

import functools
import operator
from typing import Any

import msgspec

from airflow_provider.common import json_codec
from airflow_provider.control.waiting.all_of import AllOf
from airflow_provider.control.waiting.certificate import StandbysCompared
from airflow_provider.control.waiting.changelog import ChangelogGrowthWithin
from airflow_provider.control.waiting.disk import DiskSpaceFree
from airflow_provider.control.waiting.drill import DrillPassedWithin
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Needs, Outcome
from airflow_provider.control.waiting.figures import SourceLagWithin
from airflow_provider.control.waiting.incident import IncidentResolved
from airflow_provider.control.waiting.instance import (
    CommandDone,
    InstanceEnded,
    InstanceInState,
    InstanceRunning,
    SupervisedRunning,
)
from airflow_provider.control.waiting.pause import ProcessingPaused
from airflow_provider.control.waiting.predicted_rto import PredictedRtoWithin
from airflow_provider.control.waiting.recovery import FaultEnded, FaultTaken
from airflow_provider.control.waiting.replay import TasksReplayed
from airflow_provider.control.waiting.snapshot import SnapshotsTaken
from airflow_provider.control.waiting.standby import StandbysWarm
from airflow_provider.control.waiting.task import TaskInState, TasksRunning
from airflow_provider.control.waiting.wait_result import WaitResult
from airflow_provider.errors import ConfigurationError

__all__ = [
    "AllOf",
    "ChangelogGrowthWithin",
    "CommandDone",
    "Condition",
    "DiskSpaceFree",
    "DrillPassedWithin",
    "Evaluation",
    "FaultEnded",
    "FaultTaken",
    "IncidentResolved",
    "InstanceEnded",
    "InstanceInState",
    "InstanceRunning",
    "Needs",
    "Outcome",
    "PredictedRtoWithin",
    "ProcessingPaused",
    "SnapshotsTaken",
    "SourceLagWithin",
    "StandbysCompared",
    "StandbysWarm",
    "SupervisedRunning",
    "TaskInState",
    "TasksReplayed",
    "TasksRunning",
    "WaitResult",
    "from_plain",
]


def from_plain(plain: dict[str, Any]) -> Condition:
    """A condition of what `airflow_provider.common.json_codec.to_plain` made of it, such as in the triggerer.

    Raises:
        ConfigurationError: the values are not those of a condition.
    """
    any_condition: Any = functools.reduce(operator.or_, Condition.__subclasses__())
    try:
        condition: Condition = json_codec.from_plain(plain, any_condition)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"{plain.get('kind')!r} with these arguments is no condition to wait for ({error}): clear the task that "
            "waits, so that it says again what it waits for."
        ) from error
    return condition
