"""Makes an instance of a running application fail, lets the failover DAG do its work, and checks the result.

It begins only when every task has its warm standbys, so that it never makes a weak application weaker. Give it a
schedule to learn what a failover really costs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param

from airflow_provider.operators.fault_injection import InjectFaultOperator
from airflow_provider.operators.recovery_check import CheckRecoveryOperator
from airflow_provider.sensors.incident_resolution import IncidentResolutionSensor
from airflow_provider.sensors.standby_lag import StandbyLagSensor

with DAG(
    "stateful_streams_recovery_drill",
    description="Kills an instance of a running application and checks its recovery",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    render_template_as_native_obj=True,
    tags=["stateful-streams"],
    default_args={"retry_delay": timedelta(seconds=10)},
    params={
        "application_id": Param(
            "my-application",
            type="string",
            pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
            title="Application id",
            description="A running application that the failover DAG watches.",
            section="Drill",
        ),
        "instance": Param(
            None,
            type=["null", "string"],
            title="Instance",
            description="The one to kill. Empty takes the one with the most active tasks.",
            section="Drill",
        ),
        "fault": Param(
            "kill",
            enum=["kill"],
            title="Fault",
            description="kill: SIGKILL to the driver, the JVM and the Python workers at once.",
            section="Drill",
        ),
        "num_standby_replicas": Param(
            1, type="integer", minimum=0, maximum=10, title="Standbys a task", section="Drill"
        ),
        "kafka_conn_id": Param("kafka_streams_default", type="string", title="Kafka connection", section="Drill"),
        "ready_timeout_s": Param(
            60, type="integer", minimum=1, title="Ready within", description="Seconds.", section="Limits"
        ),
        "recovery_timeout_s": Param(
            1800, type="integer", minimum=10, title="Whole again within", description="Seconds.", section="Limits"
        ),
    },
) as dag:
    application: dict[str, Any] = {
        "application_id": "{{ params.application_id }}",
        "kafka_conn_id": "{{ params.kafka_conn_id }}",
    }
    replicas: dict[str, Any] = {"num_standby_replicas": "{{ params.num_standby_replicas }}"}

    ready = StandbyLagSensor(
        task_id="be_ready", deadline_s="{{ params.ready_timeout_s }}", retries=0, **replicas, **application
    )
    fault = InjectFaultOperator(task_id="inject_fault", instance="{{ params.instance }}", **application)
    resolved = IncidentResolutionSensor(
        task_id="wait_for_failover",
        instance="{{ ti.xcom_pull('inject_fault')['instance'] }}",
        incarnation="{{ ti.xcom_pull('inject_fault')['incarnation'] }}",
        deadline_s="{{ params.recovery_timeout_s }}",
        **application,
    )
    check = CheckRecoveryOperator(task_id="check_recovery", fault=fault.output, **replicas, **application)
    ready >> fault >> resolved >> check
