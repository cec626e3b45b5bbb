"""The operators: create topics, deploy, stop, promote, replay. Import them from `airflow_provider.operators`.

A class is loaded when it is asked for, so that a DAG file that needs one loads one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from airflow_provider.operators.application_reset import RemoveStateOperator, ResetApplicationOperator
    from airflow_provider.operators.assignment import AssignTasksOperator, FailOverOperator, PromoteStandbyOperator
    from airflow_provider.operators.checks import CheckBlackoutOperator, CheckDrillReadinessOperator, CheckSloOperator
    from airflow_provider.operators.drill import CheckRecoveryOperator, InjectFaultOperator
    from airflow_provider.operators.held_task_question import AskAboutHeldTasksOperator
    from airflow_provider.operators.instance_commands import (
        CertifyStandbysOperator,
        PauseProcessingOperator,
        ReplayChangelogOperator,
        SnapshotStandbysOperator,
        StopInstanceOperator,
    )
    from airflow_provider.operators.instance_deployment import DeployInstanceOperator
    from airflow_provider.operators.repair import HistoryOperator, ListRepairsOperator, ReportFailOverOperator
    from airflow_provider.operators.topics import CheckTopicsOperator, CreateChangelogTopicsOperator

__all__ = [
    "AskAboutHeldTasksOperator",
    "AssignTasksOperator",
    "CertifyStandbysOperator",
    "CheckBlackoutOperator",
    "CheckDrillReadinessOperator",
    "CheckRecoveryOperator",
    "CheckSloOperator",
    "CheckTopicsOperator",
    "CreateChangelogTopicsOperator",
    "DeployInstanceOperator",
    "FailOverOperator",
    "HistoryOperator",
    "InjectFaultOperator",
    "ListRepairsOperator",
    "PauseProcessingOperator",
    "PromoteStandbyOperator",
    "RemoveStateOperator",
    "ReplayChangelogOperator",
    "ReportFailOverOperator",
    "ResetApplicationOperator",
    "SnapshotStandbysOperator",
    "StopInstanceOperator",
]

__getattr__ = lazy_names(
    __name__,
    {
        "application_reset": ("RemoveStateOperator", "ResetApplicationOperator"),
        "assignment": ("AssignTasksOperator", "FailOverOperator", "PromoteStandbyOperator"),
        "checks": ("CheckBlackoutOperator", "CheckDrillReadinessOperator", "CheckSloOperator"),
        "drill": ("CheckRecoveryOperator", "InjectFaultOperator"),
        "held_task_question": ("AskAboutHeldTasksOperator",),
        "instance_commands": (
            "CertifyStandbysOperator",
            "PauseProcessingOperator",
            "ReplayChangelogOperator",
            "SnapshotStandbysOperator",
            "StopInstanceOperator",
        ),
        "instance_deployment": ("DeployInstanceOperator",),
        "repair": ("HistoryOperator", "ListRepairsOperator", "ReportFailOverOperator"),
        "topics": ("CheckTopicsOperator", "CreateChangelogTopicsOperator"),
    },
)
