"""Deploys an application: its topics, its instances, its first assignment; ends when every task has warm standbys.

Running it again changes nothing that is as it should be: topics are verified, living instances attached to. One that
was deployed otherwise is left or restarted, as the form says; all at once where several differ.

It is also how an instance is added: name it among the instances. It gets its share of the tasks as soon as its copies
of them are warm.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, get_current_context, task

from airflow_provider.control.deployment import Deployment
from airflow_provider.dag_form import (
    APPLICATION,
    NAME,
    OPTIONAL_LIST,
    STANDBYS,
    TAG,
    application_field,
    connection_field,
    standbys_field,
    start_timeout_field,
    warm_timeout_field,
)
from airflow_provider.operators.changelog_topics import CreateChangelogTopicsOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from airflow_provider.operators.task_assignment import AssignTasksOperator
from airflow_provider.sensors.standby_lag import StandbyLagSensor

with DAG(
    "stateful_streams_deploy",
    description="Topics, instances and the first assignment of a stateful streaming application",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    tags=[TAG],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10), "deferrable": True},
    params={
        "application_id": application_field(
            "The id that the job file names. It prefixes topics and the state's folder.", section="Application"
        ),
        "application": Param(
            "/path/to/job.py",
            type="string",
            minLength=1,
            title="Job file",
            description="Path of the PySpark file on the worker, for spark-submit.",
            section="Application",
        ),
        "source_topics": Param(
            [],
            type=OPTIONAL_LIST,
            items={"type": "string"},
            title="Source topics",
            description="Leave it empty: the job file says all topics that it needs, and create_topics shows them with "
            "the stages. Named here, what a job of one stage reads, where the job file cannot be asked.",
            section="Application",
        ),
        "output_topics": Param(
            [],
            type=OPTIONAL_LIST,
            items={"type": "string"},
            title="Topics to create for the output",
            description="The sink and the dead-letter topic, with the source's number of partitions where they do not "
            "exist. Without it the job needs them to exist.",
            section="Application",
        ),
        "stores": Param(
            ["state"],
            type="array",
            items={"type": "string"},
            minItems=1,
            title="Stores",
            description="The names of the job's stores, where source topics are named above: a store has the name of "
            "its sink, unless the job gives it another with name=.",
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
        "num_standby_replicas": standbys_field(
            "Warm copies beside the active one. Needs as many further instances.", section="Instances"
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
            "~/.local/state/stateful-streams",
            type="string",
            pattern="^[/~]",
            title="Run folder",
            description="For logs and scratch; every launch gets a folder of its own in it. Under the home (~) of the "
            "worker's user, or where no other user can write.",
            section="Instances",
        ),
        "conf": Param(
            {},
            type="object",
            title="Spark settings",
            description='As for spark-submit --conf, for example {"spark.driver.memory": "2g"}.',
            section="Instances",
        ),
        "on_change": Param(
            "fail",
            enum=["fail", "attach", "restart"],
            title="When an instance runs otherwise",
            description="A changed job file or setting: fail says what differs, attach leaves it, restart restarts it.",
            section="Instances",
        ),
        "kafka_conn_id": connection_field(section="Connections"),
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
        "run_max_folders": Param(
            Deployment.run_max_folders,
            type="integer",
            minimum=1,
            title="Run folders kept",
            description="Of ended launches, for each instance.",
            section="Limits",
        ),
        "log_max_bytes": Param(
            Deployment.log_max_bytes,
            type="integer",
            minimum=1 << 20,
            title="Longest log",
            description="Bytes, after which an instance begins a new log; the older half is kept beside it.",
            section="Limits",
        ),
        "start_timeout_s": start_timeout_field(),
        "warm_timeout_s": warm_timeout_field(),
    },
) as dag:

    @task
    def list_instances() -> list[dict[str, str]]:
        """One set of arguments per instance; stores must not be shared, so each has its own folder."""
        params = get_current_context()["params"]
        return [{"instance": name, "state_dir": f"{params['state_dir']}/{name}"} for name in params["instances"]]

    topics = CreateChangelogTopicsOperator(
        task_id="create_topics",
        source_topics="{{ (params.source_topics or []) | tojson }}",
        application="{{ '' if params.source_topics else params.application }}",
        stores="{{ params.stores | tojson }}",
        output_topics="{{ (params.output_topics or []) | tojson }}",
        replication_factor="{{ params.replication_factor | tojson }}",  # type: ignore[arg-type]
        **APPLICATION,
    )
    deploy = DeployInstanceOperator.partial(
        task_id="deploy_instance",
        application="{{ params.application }}",
        run_dir="{{ params.run_dir }}",
        spark_conn_id="{{ params.spark_conn_id }}",
        conf="{{ params.conf | tojson }}",
        on_change="{{ params.on_change }}",
        run_max_folders="{{ params.run_max_folders }}",
        log_max_bytes="{{ params.log_max_bytes }}",
        start_timeout_s="{{ params.start_timeout_s }}",
        map_index_template="{{ task.instance }}",
        deferrable=True,  # a mapped task takes none of the DAG's default arguments but Airflow's own
        **APPLICATION,
    ).expand_kwargs(list_instances())
    assign = AssignTasksOperator(
        task_id="assign_tasks",
        store="{{ params.stores[0] }}",
        reason="deployed by {{ run_id }}",
        **STANDBYS,
        **APPLICATION,
    )
    warm = StandbyLagSensor(
        task_id="wait_until_warm",
        max_lag_records="{{ params.max_lag_records | tojson }}",  # type: ignore[arg-type]
        timeout_s="{{ params.warm_timeout_s }}",
        **STANDBYS,
        **APPLICATION,
    )
    balance = AssignTasksOperator(
        task_id="balance",
        balance=True,
        reason="evened out by {{ run_id }}",
        timeout_s="{{ params.warm_timeout_s }}",
        **STANDBYS,
        **APPLICATION,
    )
    topics >> deploy >> assign >> warm >> balance
