"""Injects a fault into a running application, lets failover and repair do their work, and checks the result.

The form says which kind: ``crash``, for one, sends SIGKILL to the driver, the JVM and the Python workers at once. The
job has to say ``options(allow_faults=True)``.

It begins only when every task has its warm standbys, failures are watched for and none is open, so that it never makes
a weak application weaker. Give it a schedule to learn what a failover really costs, and blackout times in which it is
skipped.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider.dag_form import (
    APPLICATION,
    STANDBYS,
    TAG,
    application_field,
    blackout_field,
    connection_field,
    drill_kind_field,
    instance_field,
    seconds_field,
    shared_sink_field,
    standbys_field,
)
from airflow_provider.factory.drill import drill_tasks

with DAG(
    "stateful_streams_recovery_drill",
    description="Injects a fault into a running application and checks its recovery",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=[TAG],
    default_args={"retry_delay": timedelta(seconds=10), "deferrable": True},
    params={
        "application_id": application_field("A running application that the failover DAG watches.", section="Drill"),
        "kind": drill_kind_field(section="Drill"),
        "instance": instance_field(
            "The one that fails. Empty takes the one with the most active tasks.", section="Drill"
        ),
        "blackout": blackout_field(section="Drill"),
        "num_standby_replicas": standbys_field(section="Drill"),
        "shared_sink": shared_sink_field(section="Drill"),
        "kafka_conn_id": connection_field(section="Drill"),
        "ready_timeout_s": seconds_field(60, "Ready within", minimum=1),
        "recovery_timeout_s": seconds_field(1800, "Recovered within"),
    },
) as dag:
    drill_tasks(APPLICATION, STANDBYS, kind="{{ params.kind }}", shared_sink="{{ params.shared_sink }}")
