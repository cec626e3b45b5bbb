"""Answers the failure of an instance or of a task: one short task that decides and publishes.

Started by the failure itself: a watcher in the triggerer follows the applications that the environment variable
``STATEFUL_STREAMS_APPLICATIONS`` names, such as ``flights@kafka_streams_default,orders@kafka_eu``. Started by hand, it
answers what is wrong with the application that the form names, or moves everything off the instance that it names.

Nothing waits in it: what it answered starts the repair DAG, which brings the redundancy back. Runs may overlap, because
publishing is fenced. Each application is answered by itself, so one whose brokers are away delays no other.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, Asset, AssetWatcher, Param

from airflow_provider.assets import ANSWERS_ALIAS
from airflow_provider.dag_form import (
    STANDBYS,
    TAG,
    connection_field,
    instance_field,
    standbys_field,
)
from airflow_provider.hooks.watched_application import APPLICATIONS_VARIABLE, parse_applications
from airflow_provider.operators.failover import FailOverOperator
from airflow_provider.triggers.incident import IncidentTrigger

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
                stall_timeout_s=application.stall_timeout_s,
                num_standby_replicas=application.num_standby_replicas,
            ),
        )
        for application in parse_applications(os.environ.get(APPLICATIONS_VARIABLE, ""))
    ],
)


with DAG(
    "stateful_streams_failover",
    description="Promotes standbys when an instance or a task fails",
    doc_md=__doc__,
    schedule=incidents,
    catchup=False,
    max_active_runs=32,
    is_paused_upon_creation=False,
    tags=[TAG],
    default_args={"retry_delay": timedelta(seconds=5), "deferrable": True},
    params={
        "application_id": Param(
            None,
            type=["null", "string"],
            title="Application id",
            description="The one whose failure to answer. A run that a failure started gets it from its event.",
            section="By hand",
        ),
        "instance": instance_field(
            "Answer only this one's failure; if nothing is wrong with it, move everything off it.", section="By hand"
        ),
        "kafka_conn_id": connection_field(section="By hand"),
        "num_standby_replicas": standbys_field(section="By hand"),
    },
) as dag:
    FailOverOperator(
        task_id="fail_over",
        application_id="{{ params.application_id or '' }}",
        kafka_conn_id="{{ params.kafka_conn_id }}",
        instance="{{ params.instance or '' }}",
        priority_weight=1000,
        outlets=[ANSWERS_ALIAS],
        **STANDBYS,
    )
