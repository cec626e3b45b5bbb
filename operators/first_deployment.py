"""What is not looked at before an application was deployed for the first time."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.bases.arguments import parse_optional
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.kafka.names import assignment_topic, metrics_topic, status_topic


def skip_before_deployment(hook: KafkaStreamsHook, application_id: str, deploy_dag_id: str | None) -> None:
    """Skip the task, naming the DAG that deploys the application, where none of its tasks was ever assigned.

    An application of which any topic of its own is there, and others are not, was deployed: that is no reason to skip.

    Args:
        deploy_dag_id: the DAG that deploys it; None, also as a template renders it, skips nothing.

    Raises:
        AirflowSkipException: it is to be deployed first.
        BrokerUnreachableError: no broker answered.
    """
    if (dag_id := parse_optional(deploy_dag_id)) is None or _was_deployed(hook, application_id):
        return
    raise AirflowSkipException(
        f"{application_id!r} is not deployed yet: run the DAG {dag_id!r}. Nothing is checked before."
    )


def _was_deployed(hook: KafkaStreamsHook, application_id: str) -> bool:
    admin = hook.topics()
    own = (assignment_topic(application_id), status_topic(application_id), metrics_topic(application_id))
    if not any(admin.describe(topic) is not None for topic in own):
        return False
    view = hook.read(application_id)
    # Before the first assignment no instance carries one out; after a loss of that topic, some do.
    return view.assignment is not None or any(status.generation for status in view.statuses.values())
