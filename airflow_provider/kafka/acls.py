"""The fewest rights by which an application works, by who acts: on brokers that have ACLs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import (
    assignment_topic,
    changelog_topic,
    history_topic,
    metrics_topic,
    publisher_transactional_id,
    status_topic,
)
from airflow_provider.kafka.topic_findings import WantedTopics

__all__ = ["Acl", "Resource", "Role", "acls_of"]

_SEE: Final = ("Describe", "DescribeConfigs")


class Role(Enum):
    """Who acts for an application. A user that has several roles needs the rights of each."""

    INSTANCE = "instance"
    """Its instances and their launchers."""
    AIRFLOW = "airflow"
    """The DAGs and the command line: deploy, assign, fail over, drill, watch."""
    VIEWER = "viewer"
    """Who looks at its status, history and metrics, and changes nothing."""
    MAINTENANCE = "maintenance"
    """Besides those of `AIRFLOW`: what the reset and ``topics repair`` need."""


class Resource(Enum):
    """What a right is about, in the words of ``kafka-acls.sh``."""

    TOPIC = "topic"
    TRANSACTIONAL_ID = "transactional-id"
    GROUP = "group"


@dataclass(frozen=True)
class Acl:
    """What a user may do with one resource, or with those whose names begin alike.

    Args:
        resource: what it is.
        name: its name, or the beginning of it.
        operations: as ``kafka-acls.sh`` names them.
        prefixed: whether `name` is a beginning.
    """

    resource: Resource
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False

    def to_command(self, principal: str, bootstrap_server: str, command_config: str | None = None) -> str:
        """The line of a shell that grants it.

        Args:
            principal: whom, such as ``User:orders``.
            bootstrap_server: ``host:port``.
            command_config: file by which ``kafka-acls.sh`` logs in; None for none.

        Raises:
            ConfigurationError: the principal has no type.
        """
        if ":" not in principal:
            raise ConfigurationError(f"Principal {principal!r} has no type: give it as 'User:{principal}'.")
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap_server]
        if command_config is not None:
            words += ["--command-config", command_config]
        words += ["--add", "--allow-principal", principal]
        for operation in self.operations:
            words += ["--operation", operation]
        words += [f"--{self.resource.value}", self.name]
        if self.prefixed:
            words += ["--resource-pattern-type", "prefixed"]
        return shlex.join(words)


def acls_of(role: Role, application: WantedTopics) -> tuple[Acl, ...]:
    """The rights of a role.

    Args:
        role: who acts.
        application: for which application, by its topics.
    """
    match role:
        case Role.INSTANCE:
            return _of_instance(application)
        case Role.AIRFLOW:
            return _of_airflow(application)
        case Role.VIEWER:
            return _of_viewer(application)
        case Role.MAINTENANCE:
            return _of_maintenance(application)


def _of_instance(application: WantedTopics) -> tuple[Acl, ...]:
    app = application.application_id
    return (
        # It takes away the commands that it has carried out.
        *_topics([assignment_topic(app), status_topic(app)], *_SEE, "Read", "Write"),
        *_topics([metrics_topic(app)], "Describe", "Write"),
        *_topics(_changelogs(application), *_SEE, "Read", "Write"),
        *_topics(application.sources, *_SEE, "Read"),
        *_topics(application.outputs, *_SEE, "Write"),
        Acl(Resource.TRANSACTIONAL_ID, f"{app}-0_", ("Describe", "Write"), prefixed=True),
        Acl(Resource.GROUP, app, ("Read",)),
    )


def _of_airflow(application: WantedTopics) -> tuple[Acl, ...]:
    app = application.application_id
    return (
        *_topics([assignment_topic(app), status_topic(app), history_topic(app)], *_SEE, "Read", "Write", "Create"),
        *_topics([metrics_topic(app), *_changelogs(application)], *_SEE, "Read", "Create"),
        *_topics(application.sources, *_SEE),
        # Drills read what came out, to count it.
        *_topics(application.outputs, *_SEE, "Read", "Create"),
        Acl(Resource.TRANSACTIONAL_ID, publisher_transactional_id(app), ("Describe", "Write")),
    )


def _of_viewer(application: WantedTopics) -> tuple[Acl, ...]:
    app = application.application_id
    seen = (assignment_topic(app), status_topic(app), history_topic(app), metrics_topic(app))
    return _topics(seen, "Describe", "Read")


def _of_maintenance(application: WantedTopics) -> tuple[Acl, ...]:
    app = application.application_id
    own = (assignment_topic(app), status_topic(app), history_topic(app), metrics_topic(app), *_changelogs(application))
    return _topics(own, "AlterConfigs", "Delete")


def _topics(names: Sequence[str], *operations: str) -> tuple[Acl, ...]:
    return tuple(Acl(Resource.TOPIC, name, operations) for name in names)


def _changelogs(application: WantedTopics) -> tuple[str, ...]:
    return tuple(changelog_topic(application.application_id, store) for store in application.stores)
