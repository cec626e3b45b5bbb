"""Creates the topics, starts every instance, assigns the tasks, and ends when each has its warm standbys.

Running it again changes nothing that is as it should be. It is also how an instance is added: name it in the file, and
run this; it gets its share of the tasks as soon as its copies of them are warm.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_provider.factory.form import timeouts
from airflow_provider.factory.parts import Parts
from airflow_provider.operators.changelog_topics import CreateChangelogTopicsOperator

__all__ = ["deploy_dag"]


def deploy_dag(parts: Parts) -> DAG:
    """``<application>_deploy``."""
    stream = parts.stream
    on_change = Param(
        "fail",
        enum=["fail", "attach", "restart"],
        title="When an instance runs otherwise",
        description="A changed job file or setting: fail says what differs, attach leaves it, restart restarts all at "
        "once. Run the upgrade DAG to restart one after the other.",
        section="Instances",
    )
    with parts.dag(
        "deploy", "Topics, instances and assignment", __doc__, {"on_change": on_change, **timeouts()}
    ) as dag:
        topics = CreateChangelogTopicsOperator(
            task_id="create_topics", replication_factor=stream.replication_factor, **parts.topics(), **parts.application
        )
        deployed = [
            parts.deploy(instance, f"deploy_{instance.name}", on_change="{{ params.on_change }}")
            for instance in stream.instances
        ]
        topics >> deployed >> parts.assign("assign_tasks", "deployed") >> parts.warm() >> parts.balance()
    return dag
