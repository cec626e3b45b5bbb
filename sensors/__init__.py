"""The sensors: wait on lag and on states. Import them from `airflow_provider.sensors`.

A class is loaded when it is asked for, so that a DAG file that needs one loads one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from airflow_provider.sensors.fault_end import FaultEndSensor
    from airflow_provider.sensors.incident_resolution import IncidentResolutionSensor
    from airflow_provider.sensors.instance_state import InstanceStateSensor
    from airflow_provider.sensors.predicted_rto import PredictedRtoSensor
    from airflow_provider.sensors.standby_lag import StandbyLagSensor
    from airflow_provider.sensors.task_state import TaskStateSensor

__all__ = [
    "FaultEndSensor",
    "IncidentResolutionSensor",
    "InstanceStateSensor",
    "PredictedRtoSensor",
    "StandbyLagSensor",
    "TaskStateSensor",
]

__getattr__ = lazy_names(
    __name__,
    {
        "FaultEndSensor": "fault_end",
        "IncidentResolutionSensor": "incident_resolution",
        "InstanceStateSensor": "instance_state",
        "PredictedRtoSensor": "predicted_rto",
        "StandbyLagSensor": "standby_lag",
        "TaskStateSensor": "task_state",
    },
)
