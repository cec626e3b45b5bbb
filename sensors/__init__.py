"""The sensors: wait on lags, states, room on disks, growth and drills. Import them from `airflow_provider.sensors`.

A class is loaded when it is asked for, so that a DAG file that needs one loads one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from airflow_provider.sensors.certified_standbys import CertifiedStandbysSensor
    from airflow_provider.sensors.changelog_growth import ChangelogGrowthSensor
    from airflow_provider.sensors.disk_space import DiskSpaceSensor
    from airflow_provider.sensors.drill_age import DrillAgeSensor
    from airflow_provider.sensors.fault_end import FaultEndSensor
    from airflow_provider.sensors.incident_resolution import IncidentResolutionSensor
    from airflow_provider.sensors.instance_state import InstanceStateSensor
    from airflow_provider.sensors.predicted_rto import PredictedRtoSensor
    from airflow_provider.sensors.source_lag import SourceLagSensor
    from airflow_provider.sensors.standby_lag import StandbyLagSensor
    from airflow_provider.sensors.task_state import TaskStateSensor

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
        "CertifiedStandbysSensor": "certified_standbys",
        "ChangelogGrowthSensor": "changelog_growth",
        "DiskSpaceSensor": "disk_space",
        "DrillAgeSensor": "drill_age",
        "FaultEndSensor": "fault_end",
        "IncidentResolutionSensor": "incident_resolution",
        "InstanceStateSensor": "instance_state",
        "PredictedRtoSensor": "predicted_rto",
        "SourceLagSensor": "source_lag",
        "StandbyLagSensor": "standby_lag",
        "TaskStateSensor": "task_state",
    },
)
