"""How a condition comes back in the triggerer from the plain values that an operator sent."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from airflow_provider.common import json_codec
from airflow_provider.control.conditions.all_of import AllOf
from airflow_provider.control.conditions.certificate import StandbysCompared
from airflow_provider.control.conditions.changelog import ChangelogGrowthWithin
from airflow_provider.control.conditions.disk import DiskSpaceFree
from airflow_provider.control.conditions.drill import DrillPassedWithin
from airflow_provider.control.conditions.evaluation import Condition
from airflow_provider.control.conditions.fault import FaultEnded, FaultTaken
from airflow_provider.control.conditions.incident import IncidentResolved
from airflow_provider.control.conditions.instance import (
    CommandDone,
    InstanceEnded,
    InstanceInState,
    InstanceRunning,
    SupervisedRunning,
)
from airflow_provider.control.conditions.pause import ProcessingPaused
from airflow_provider.control.conditions.predicted_rto import PredictedRtoWithin
from airflow_provider.control.conditions.replay import TasksReplayed
from airflow_provider.control.conditions.snapshot import SnapshotsTaken
from airflow_provider.control.conditions.source import SourceLagWithin
from airflow_provider.control.conditions.standby import StandbysWarm
from airflow_provider.control.conditions.task import TaskInState, TasksRunning
from airflow_provider.errors import ConfigurationError

__all__ = ["from_plain"]

_ANY: Final[Any] = (
    AllOf
    | ChangelogGrowthWithin
    | CommandDone
    | DiskSpaceFree
    | DrillPassedWithin
    | FaultEnded
    | FaultTaken
    | IncidentResolved
    | InstanceEnded
    | InstanceInState
    | InstanceRunning
    | ProcessingPaused
    | PredictedRtoWithin
    | SnapshotsTaken
    | StandbysCompared
    | SourceLagWithin
    | StandbysWarm
    | SupervisedRunning
    | TaskInState
    | TasksReplayed
    | TasksRunning
)


def from_plain(plain: dict[str, Any]) -> Condition:
    """A condition of what `airflow_provider.common.json_codec.to_plain` made of it.

    Raises:
        ConfigurationError: the values are not those of a condition.
    """
    try:
        condition: Condition = json_codec.from_plain(plain, _ANY)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"{plain.get('kind')!r} with these arguments is no condition to wait for ({error}): clear the task that "
            "waits, so that it says again what it waits for."
        ) from error
    return condition
