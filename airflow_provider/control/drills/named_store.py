"""The store that a drill is about."""

from __future__ import annotations

from airflow_provider.control.current_changelog import other_stores
from airflow_provider.control.view import ControlView
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import changelog_topic
from airflow_provider.kafka.topic_admin import TopicAdmin

__all__ = ["check_store"]


def check_store(admin: TopicAdmin, view: ControlView, store: str) -> None:
    """Refuse a name that no store of the application has: the commits of its tasks are in the store's changelog.

    Without them a drill would injure the application and could not judge what came of it. Of a job that was described
    its description says where the commits are, and no name is looked at.

    Args:
        admin: of the cluster.
        view: what the application's control topics hold.
        store: as it was given.

    Raises:
        ConfigurationError: the application has no such changelog, or it may not be seen.
        BrokerUnreachableError: no broker answered.
    """
    if view.job is not None:
        return
    application_id = view.application_id
    topic = changelog_topic(application_id, store)
    if admin.describe(topic) is not None:
        return
    known = ", ".join(other_stores(application_id, admin.names())) or "none"
    raise ConfigurationError(
        f"{application_id!r} has no store {store!r} (there is no topic {topic!r}), but {known}: name the job's store. "
        "Nothing was done."
    )
