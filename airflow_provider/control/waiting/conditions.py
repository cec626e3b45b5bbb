"""What can be waited for: pure functions of an observation."""

from __future__ import annotations

import functools
import operator
from typing import Any

import msgspec

from airflow_provider.common import json_codec
from airflow_provider.control.waiting.evaluation import (
    Condition,
    Evaluation,
    Needs,
    Outcome,
    WaitResult,
)
from airflow_provider.control.waiting.figures import (
    ChangelogGrowthWithin,
    DiskSpaceFree,
    PredictedRtoWithin,
    SourceLagWithin,
)
from airflow_provider.control.waiting.instance import (
    CommandDone,
    InstanceEnded,
    InstanceInState,
    InstanceRunning,
    ProcessingPaused,
    SupervisedRunning,
)
from airflow_provider.control.waiting.recovery import DrillPassedWithin, FaultEnded, FaultTaken, IncidentResolved
from airflow_provider.control.waiting.standby import AllOf, SnapshotsTaken, StandbysCompared, StandbysWarm
from airflow_provider.control.waiting.task import TaskInState, TasksReplayed, TasksRunning
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
