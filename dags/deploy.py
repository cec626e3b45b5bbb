"""Deploys an application: its topics, its instances, its first assignment; ends when every task has warm standbys.

Running it again changes nothing that is as it should be: topics are verified, living instances attached to. So it is
also how an instance is added: name it among the instances.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from airflow_provider.operators.changelog_topics import CreateChangelogTopicsOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from airflow_provider.operators.task_assignment import AssignTasksOperator
from airflow_provider.sensors.standby_lag import StandbyLagSensor

NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"

with DAG(
    "stateful_streams_deploy",
    description="Topics, instances and the first assignment of a stateful streaming application",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    render_template_as_native_obj=True,
    tags=["stateful-streams"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={
        "application_id": Param(
            "my-application",
            type="string",
            pattern=NAME,
            title="Application id",
            description="The id that the job's file names. It prefixes topics and the state's folder.",
            section="Application",
        ),
        "application": Param(
            "/path/to/job.py",
            type="string",
            minLength=1,
            title="Job's file",
            description="Path of the PySpark file on the worker, for spark-submit.",
            section="Application",
        ),
        "source_topics": Param(
            ["my-source"],
            type="array",
            items={"type": "string"},
            minItems=1,
            title="Source topics",
            description="What the job reads. A task is created for each partition.",
            section="Application",
        ),
        "stores": Param(
            ["state"],
            type="array",
            items={"type": "string"},
            minItems=1,
            title="Stores",
            description="The names of the job's stores. Leave it unless the job names others.",
            section="Application",
        ),
        "instances": Param(
            ["a", "b"],
            type="array",
            items={"type": "string", "pattern": NAME},
            minItems=1,
            title="Instances",
            description="Names of the instances to deploy. Two or more allow standbys.",
            section="Instances",
        ),
        "num_standby_replicas": Param(
            1,
            type="integer",
            minimum=0,
            maximum=10,
            title="Standbys a task",
            description="Warm copies beside the active one. Needs as many further instances.",
            section="Instances",
        ),
        "state_dir": Param(
            "/var/lib/stateful-streams",
            type="string",
            pattern="^/",
            title="State folder",
            description="On the worker's local disk, kept over restarts. Each instance gets a folder of its own in it.",
            section="Instances",
        ),
        "run_dir": Param(
            "/var/tmp/stateful-streams",
            type="string",
            pattern="^/",
            title="Run folder",
            description="For logs and scratch; every launch gets a folder of its own in it.",
            section="Instances",
        ),
        "conf": Param(
            {},
            type="object",
            title="Spark settings",
            description='As for spark-submit --conf, for example {"spark.driver.memory": "2g"}.',
            section="Instances",
        ),
        "kafka_conn_id": Param("kafka_streams_default", type="string", title="Kafka connection", section="Connections"),
        "spark_conn_id": Param("spark_default", type="string", title="Spark connection", section="Connections"),
        "replication_factor": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Replication factor",
            description="Of the topics that are created. Empty takes the cluster's default.",
            section="Limits",
        ),
        "max_lag_records": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Allowed lag",
            description="Records that a standby may be behind to count as warm. Empty: it has caught up once.",
            section="Limits",
        ),
        "start_timeout_s": Param(
            180, type="integer", minimum=10, title="Start within", description="Seconds.", section="Limits"
        ),
        "warm_timeout_s": Param(
            3600, type="integer", minimum=10, title="Warm within", description="Seconds.", section="Limits"
        ),
    },
) as dag:
    application: dict[str, Any] = {
        "application_id": "{{ params.application_id }}",
        "kafka_conn_id": "{{ params.kafka_conn_id }}",
    }

    @task
    def list_instances() -> list[dict[str, str]]:
        """One set of arguments an instance; stores must not be shared, so each has its own folder."""
        params = get_current_context()["params"]
        return [{"instance": name, "state_dir": f"{params['state_dir']}/{name}"} for name in params["instances"]]

    topics = CreateChangelogTopicsOperator(
        task_id="create_topics",
        source_topics="{{ params.source_topics }}",
        stores="{{ params.stores }}",
        replication_factor="{{ params.replication_factor }}",  # type: ignore[arg-type]
        **application,
    )
    deploy = DeployInstanceOperator.partial(
        task_id="deploy_instance",
        application="{{ params.application }}",
        run_dir="{{ params.run_dir }}",
        spark_conn_id="{{ params.spark_conn_id }}",
        conf="{{ params.conf }}",
        start_timeout_s="{{ params.start_timeout_s }}",
        map_index_template="{{ task.instance }}",
        **application,
    ).expand_kwargs(list_instances())
    assign = AssignTasksOperator(
        task_id="assign_tasks",
        num_standby_replicas="{{ params.num_standby_replicas }}",  # type: ignore[arg-type]
        reason="deployed by {{ run_id }}",
        **application,
    )
    warm = StandbyLagSensor(
        task_id="wait_until_warm",
        num_standby_replicas="{{ params.num_standby_replicas }}",  # type: ignore[arg-type]
        max_lag_records="{{ params.max_lag_records }}",  # type: ignore[arg-type]
        deadline_s="{{ params.warm_timeout_s }}",
        **application,
    )
    topics >> deploy >> assign >> warm
