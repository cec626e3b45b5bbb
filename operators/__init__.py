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
        "ListRepairsOperator": "repair",
        "AskAboutHeldTasksOperator": "held_task_question",
        "AssignTasksOperator": "assignment",
        "CertifyStandbysOperator": "instance_commands",
        "CheckBlackoutOperator": "checks",
        "CheckDrillReadinessOperator": "checks",
        "CheckRecoveryOperator": "drill",
        "CheckSloOperator": "checks",
        "CheckTopicsOperator": "topics",
        "CreateChangelogTopicsOperator": "topics",
        "DeployInstanceOperator": "instance_deployment",
        "FailOverOperator": "assignment",
        "HistoryOperator": "repair",
        "InjectFaultOperator": "drill",
        "PauseProcessingOperator": "instance_commands",
        "PromoteStandbyOperator": "assignment",
        "RemoveStateOperator": "application_reset",
        "ReplayChangelogOperator": "instance_commands",
        "ReportFailOverOperator": "repair",
        "ResetApplicationOperator": "application_reset",
        "SnapshotStandbysOperator": "instance_commands",
        "StopInstanceOperator": "instance_commands",
    },
)
