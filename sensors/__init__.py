"""The sensors: wait on lags, states, room on disks, growth and drills. Import them from `airflow_provider.sensors`.

A class is loaded when it is asked for, so that a DAG file that needs one loads one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from airflow_provider.sensors.figures import (
        CertifiedStandbysSensor,
        ChangelogGrowthSensor,
        DiskSpaceSensor,
        PredictedRtoSensor,
        SourceLagSensor,
        StandbyLagSensor,
    )
    from airflow_provider.sensors.states import (
        DrillAgeSensor,
        FaultEndSensor,
        IncidentResolutionSensor,
        InstanceStateSensor,
        TaskStateSensor,
    )

__all__ = [
    "CertifiedStandbysSensor",
    "ChangelogGrowthSensor",
    "DiskSpaceSensor",
    "DrillAgeSensor",
    "FaultEndSensor",
    "IncidentResolutionSensor",
    "InstanceStateSensor",
    "PredictedRtoSensor",
    "SourceLagSensor",
    "StandbyLagSensor",
    "TaskStateSensor",
]

__getattr__ = lazy_names(
    __name__,
    {
        "figures": (
            "CertifiedStandbysSensor",
            "ChangelogGrowthSensor",
            "DiskSpaceSensor",
            "PredictedRtoSensor",
            "SourceLagSensor",
            "StandbyLagSensor",
        ),
        "states": (
            "DrillAgeSensor",
            "FaultEndSensor",
            "IncidentResolutionSensor",
            "InstanceStateSensor",
            "TaskStateSensor",
        ),
    },
)
