"""Answers the failure of an instance or of a task, and gives every task its standbys back.

Started by the failure itself: a watcher in the triggerer follows the applications that the environment variable
``STATEFUL_STREAMS_APPLICATIONS`` names, such as ``flights@kafka_streams_default,orders@kafka_eu``. Started by hand, it
answers what is wrong with the application that the form names, or moves everything off the instance that it names.

Only the first task is on the critical path; the others restore the redundancy. Runs may overlap: publishing is fenced
and every task finds out what was done already, so a second failure need not wait for the repair of the first.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, Param
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.operators.failover import FailOverOperator
from airflow_provider.operators.failover_report import ReportFailOverOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from airflow_provider.operators.task_assignment import AssignTasksOperator
from airflow_provider.sensors.standby_lag import StandbyLagSensor
from airflow_provider.triggers.incident import IncidentTrigger
from airflow_provider.triggers.watched import APPLICATIONS_VARIABLE, parse_applications

incidents = Asset(
    name="stateful-streams-incidents",
    uri="stateful-streams://incidents",
    watchers=[
        AssetWatcher(
            name=application.application_id,
            trigger=IncidentTrigger(
                application.application_id,
                application.kafka_conn_id,
                instance_timeout_s=application.instance_timeout_s,
                num_standby_replicas=application.num_standby_replicas,
            ),
        )
        for application in parse_applications(os.environ.get(APPLICATIONS_VARIABLE, ""))
    ],
)


def application_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The application whose incident was answered."""
    return {"application_id": answer["application_id"], "kafka_conn_id": answer["kafka_conn_id"]}


def instance_to_replace(answer: dict[str, Any]) -> dict[str, Any]:
    """The instance that is gone; skips where only a task of it failed."""
    if not answer["replace"]:
        raise AirflowSkipException(f"{answer['instance']} lives: only {answer['kind']} was answered.")
    return {**application_of(answer), "instance": answer["instance"]}


def redundancy_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The application, and how many standbys its tasks shall have."""
    return {**application_of(answer), "num_standby_replicas": answer["num_standby_replicas"]}


def incident_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The incident that was answered."""
    return {**application_of(answer), "incident_id": answer["incident_id"]}


with DAG(
    "stateful_streams_failover",
    description="Promotes standbys when an instance or a task fails, then restores the redundancy",
    doc_md=__doc__,
    schedule=incidents,
    catchup=False,
    max_active_runs=8,
    is_paused_upon_creation=False,
    render_template_as_native_obj=True,
    tags=["stateful-streams"],
    default_args={"retry_delay": timedelta(seconds=5)},
    params={
        "application_id": Param(
            None,
            type=["null", "string"],
            title="Application id",
            description="Whose failure to answer. Runs that a failure started know it.",
            section="By hand",
        ),
        "instance": Param(
            None,
            type=["null", "string"],
            title="Instance",
            description="Answer only this one's failure; if nothing is wrong with it, move everything off it.",
            section="By hand",
        ),
        "kafka_conn_id": Param("kafka_streams_default", type="string", title="Kafka connection", section="By hand"),
        "num_standby_replicas": Param(
            1, type="integer", minimum=0, maximum=10, title="Standbys a task", section="By hand"
        ),
        "start_timeout_s": Param(
            180, type="integer", minimum=10, title="Start within", description="Seconds.", section="Limits"
        ),
        "warm_timeout_s": Param(
            3600, type="integer", minimum=10, title="Warm within", description="Seconds.", section="Limits"
        ),
    },
) as dag:
    fail_over = FailOverOperator(
        task_id="fail_over",
        application_id="{{ params.application_id }}",
        instance="{{ params.instance }}",
        kafka_conn_id="{{ params.kafka_conn_id }}",
        num_standby_replicas="{{ params.num_standby_replicas }}",  # type: ignore[arg-type]
        priority_weight=1000,
    )
    answers = fail_over.output
    replace = DeployInstanceOperator.partial(
        task_id="deploy_replacement",
        start_timeout_s="{{ params.start_timeout_s }}",
        map_index_template="{{ task.instance }}",
    ).expand_kwargs(answers.map(instance_to_replace))
    assign = AssignTasksOperator.partial(
        task_id="assign_standbys",
        reason="standbys again by {{ run_id }}",
        trigger_rule="none_failed",
    ).expand_kwargs(answers.map(redundancy_of))
    warm = StandbyLagSensor.partial(
        task_id="wait_until_warm", deadline_s="{{ params.warm_timeout_s }}", trigger_rule="none_failed"
    ).expand_kwargs(answers.map(redundancy_of))
    report = ReportFailOverOperator.partial(task_id="report", trigger_rule="none_failed").expand_kwargs(
        answers.map(incident_of)
    )
    replace >> assign >> warm >> report
