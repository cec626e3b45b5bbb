"""The operators: create topics, deploy, stop, promote, replay. Import them from `airflow_provider.operators`.

A class is loaded when it is asked for, so that a DAG file that needs one loads one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from airflow_provider.operators.application_reset import RemoveStateOperator, ResetApplicationOperator
    from airflow_provider.operators.changelog_replay import ReplayChangelogOperator
    from airflow_provider.operators.changelog_topics import CreateChangelogTopicsOperator
    from airflow_provider.operators.drill_readiness import CheckBlackoutOperator, CheckDrillReadinessOperator
    from airflow_provider.operators.failover import FailOverOperator
    from airflow_provider.operators.fault_injection import InjectFaultOperator
    from airflow_provider.operators.held_task_question import AskAboutHeldTasksOperator
    from airflow_provider.operators.history import HistoryOperator
    from airflow_provider.operators.instance_deployment import DeployInstanceOperator
    from airflow_provider.operators.instance_stop import StopInstanceOperator
    from airflow_provider.operators.processing_pause import PauseProcessingOperator
    from airflow_provider.operators.promotion import PromoteStandbyOperator
    from airflow_provider.operators.recovery_check import CheckRecoveryOperator
    from airflow_provider.operators.repair import ListRepairsOperator, ReportFailOverOperator
    from airflow_provider.operators.slo_check import CheckSloOperator
    from airflow_provider.operators.standby_command import CertifyStandbysOperator, SnapshotStandbysOperator
    from airflow_provider.operators.task_assignment import AssignTasksOperator
    from airflow_provider.operators.topic_check import CheckTopicsOperator

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
        "AssignTasksOperator": "task_assignment",
        "CertifyStandbysOperator": "standby_command",
        "CheckBlackoutOperator": "drill_readiness",
        "CheckDrillReadinessOperator": "drill_readiness",
        "CheckRecoveryOperator": "recovery_check",
        "CheckSloOperator": "slo_check",
        "CheckTopicsOperator": "topic_check",
        "CreateChangelogTopicsOperator": "changelog_topics",
        "DeployInstanceOperator": "instance_deployment",
        "FailOverOperator": "failover",
        "HistoryOperator": "history",
        "InjectFaultOperator": "fault_injection",
        "PauseProcessingOperator": "processing_pause",
        "PromoteStandbyOperator": "promotion",
        "RemoveStateOperator": "application_reset",
        "ReplayChangelogOperator": "changelog_replay",
        "ReportFailOverOperator": "repair",
        "ResetApplicationOperator": "application_reset",
        "SnapshotStandbysOperator": "standby_command",
        "StopInstanceOperator": "instance_stop",
    },
)
