"""Gives an application its redundancy back after a failover: replacements, standbys, warm copies, an even load.

Started by each run of the failover DAG that answered something. Each incident is repaired by itself, so an instance
that cannot be replaced keeps no other from being replaced, and every task gets what standbys the living instances
allow. The run is red when an instance could not be replaced, or a task did not get its warm standbys.

Started by hand, it takes every incident of the application that the form names that was answered and not resolved. So
after a failed run, correct what was wrong and start it again, or clear the run's failed tasks.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task, task_group
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.assets import ANSWERS
from airflow_provider.dag_form import (
    STANDBYS,
    TAG,
    connection_field,
    instance_field,
    standbys_field,
    start_timeout_field,
    warm_timeout_field,
)
from airflow_provider.operators.failover_report import ReportFailOverOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from airflow_provider.operators.repair_list import ListRepairsOperator
from airflow_provider.operators.task_assignment import AssignTasksOperator
from airflow_provider.sensors.standby_lag import StandbyLagSensor


@task
def need_replacement(instance: str, replace: bool) -> None:
    """Skips where only a task of the instance failed, or its tasks were moved by hand."""
    if not replace:
        raise AirflowSkipException(f"{instance} lives: no replacement.")


@task_group(prefix_group_id=False)
def repair(
    application_id: Any, kafka_conn_id: Any, incident_id: Any, instance: Any, replace: Any, num_standby_replicas: Any
) -> None:
    """The repair after one incident; its arguments are the fields of `control.repair.Repair`."""
    application = {"application_id": application_id, "kafka_conn_id": kafka_conn_id}
    named = {"map_index_template": "{{ task.application_id }}"}
    redundancy = {**application, **named, "num_standby_replicas": num_standby_replicas}
    needed = need_replacement(instance, replace)
    replacement = DeployInstanceOperator(
        task_id="deploy_replacement",
        instance=instance,
        start_timeout_s="{{ params.start_timeout_s }}",
        map_index_template="{{ task.instance }}",
        **application,
    )
    # Whatever became of the replacement, the living instances take what standbys they can.
    assign = AssignTasksOperator(
        task_id="assign_standbys", reason="standbys again by {{ run_id }}", trigger_rule="all_done", **redundancy
    )
    warm = StandbyLagSensor(task_id="wait_until_warm", timeout_s="{{ params.warm_timeout_s }}", **redundancy)
    report = ReportFailOverOperator(task_id="report", incident_id=incident_id, **application)
    # What was moved off an instance that lives has to stay off it: skipped with the replacement.
    balance = AssignTasksOperator(
        task_id="balance",
        balance=True,
        reason="evened out by {{ run_id }}",
        timeout_s="{{ params.warm_timeout_s }}",
        **redundancy,
    )
    needed >> replacement >> assign >> warm >> report >> balance
    # The last task says whether all went well, so that the run is red when an instance could not be replaced.
    replacement >> balance


with DAG(
    "stateful_streams_repair",
    description="Replaces lost instances and restores the redundancy after a failover",
    doc_md=__doc__,
    schedule=ANSWERS,
    catchup=False,
    max_active_runs=32,
    is_paused_upon_creation=False,
    tags=[TAG],
    default_args={"retry_delay": timedelta(seconds=5), "retries": 2, "deferrable": True},
    params={
        "application_id": Param(
            None,
            type=["null", "string"],
            title="Application id",
            description="The one to repair. A run that a failover started gets it from its event.",
            section="By hand",
        ),
        "instance": instance_field("Only what went wrong with this one.", section="By hand"),
        "kafka_conn_id": connection_field(section="By hand"),
        "num_standby_replicas": standbys_field(section="By hand"),
        "start_timeout_s": start_timeout_field(),
        "warm_timeout_s": warm_timeout_field(),
    },
) as dag:
    repairs = ListRepairsOperator(
        task_id="list_repairs",
        application_id="{{ params.application_id or '' }}",
        kafka_conn_id="{{ params.kafka_conn_id }}",
        instance="{{ params.instance or '' }}",
        **STANDBYS,
    )
    repair.expand_kwargs(repairs.output)
