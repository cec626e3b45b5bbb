"""The fewest rights by which an application works, by who acts: on brokers that have ACLs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider.control.records.job_description import JobDescription, JobTopic, TopicKind
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import (
    assignment_topic,
    history_topic,
    lookups_topic,
    metrics_topic,
    publisher_transactional_id,
    stage_transactional_ids,
    status_topic,
)


class Resource(Enum):
    """What a right is about, in the words of ``kafka-acls.sh``."""

    TOPIC = "topic"
    TRANSACTIONAL_ID = "transactional-id"
    GROUP = "group"


@dataclass(frozen=True)
class Acl:
    """What a user may do with one resource, or with those whose names begin alike.

    Args:
        operations: as ``kafka-acls.sh`` names them.
        prefixed: whether `name` is a beginning.
    """

    resource: Resource
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False

    def to_command(self, principal: str, bootstrap_server: str, command_config: str | None = None) -> str:
        """The line of a shell that grants it.

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


_SEE: Final = ("Describe", "DescribeConfigs")
_READ: Final = (*_SEE, "Read")
_WRITE: Final = (*_SEE, "Write")
_KEEP: Final = (*_SEE, "Read", "Write")
_SET_UP: Final = (*_SEE, "Read", "Create")

_OF_INSTANCE: Final = {
    TopicKind.SOURCE: _READ,
    TopicKind.REPARTITION: (*_KEEP, "Delete"),
    TopicKind.CHANGELOG: _KEEP,
    TopicKind.COMMITS: _KEEP,
    TopicKind.SINK: _WRITE,
    TopicKind.DEAD_LETTERS: _WRITE,
}
"""Delete: for the records that the stage behind it has processed."""
_OF_AIRFLOW: Final = {
    TopicKind.SOURCE: _SEE,
    TopicKind.REPARTITION: (*_SEE, "Create"),
    TopicKind.CHANGELOG: _SET_UP,
    TopicKind.COMMITS: _SET_UP,
    # Drills read what came out, to count it.
    TopicKind.SINK: _SET_UP,
    TopicKind.DEAD_LETTERS: _SET_UP,
}


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


def acls_of(role: Role, job: JobDescription) -> tuple[Acl, ...]:
    """The rights of a role, one for each resource.

    Args:
        job: for which application; of its stages and topics only those count that it names.
    """
    match role:
        case Role.INSTANCE:
            rights = _of_instance(job)
        case Role.AIRFLOW:
            rights = _of_airflow(job)
        case Role.VIEWER:
            rights = _topics(_control_topics(job), ("Describe", "Read"))
        case Role.MAINTENANCE:
            names = (*_control_topics(job), lookups_topic(job.application_id), *job.own, *job.gone)
            rights = _topics(names, ("AlterConfigs", "Delete"))
    # A topic may be several things to a job, such as a sink that is another stream's source.
    merged: dict[tuple[Resource, str, bool], tuple[str, ...]] = {}
    for acl in rights:
        resource = (acl.resource, acl.name, acl.prefixed)
        merged[resource] = tuple(dict.fromkeys((*merged.get(resource, ()), *acl.operations)))
    return tuple(Acl(kind, name, operations, prefixed) for (kind, name, prefixed), operations in merged.items())


def _of_instance(job: JobDescription) -> list[Acl]:
    app = job.application_id
    return [
        # It takes away the commands that it has carried out.
        *_topics([assignment_topic(app), status_topic(app)], _KEEP),
        *_topics([metrics_topic(app)], ("Describe", "Write")),
        *_topics([lookups_topic(app)], ("Describe", "Read", "Write")),
        *(acl for topic in job.topics for acl in _topics([topic.name], _of_instance_on(topic))),
        *(
            Acl(Resource.TRANSACTIONAL_ID, stage_transactional_ids(app, stage), ("Describe", "Write"), prefixed=True)
            for stage in job.committing_stages
        ),
        Acl(Resource.GROUP, app, ("Read",)),
    ]


def _of_instance_on(topic: JobTopic) -> tuple[str, ...]:
    # Records are deleted by who may delete the topic; those of windows that are over are.
    return (*_OF_INSTANCE[topic.kind], *(("Delete",) if topic.windowed else ()))


def _of_airflow(job: JobDescription) -> list[Acl]:
    app = job.application_id
    return [
        *_topics([assignment_topic(app), status_topic(app), history_topic(app)], (*_KEEP, "Create")),
        *_topics([lookups_topic(app)], (*_KEEP, "Create")),
        *_topics([metrics_topic(app)], _SET_UP),
        *(acl for topic in job.topics for acl in _topics([topic.name], _OF_AIRFLOW[topic.kind])),
        Acl(Resource.TRANSACTIONAL_ID, publisher_transactional_id(app), ("Describe", "Write")),
    ]


def _control_topics(job: JobDescription) -> tuple[str, ...]:
    app = job.application_id
    return assignment_topic(app), status_topic(app), history_topic(app), metrics_topic(app)


def _topics(names: Iterable[str], operations: tuple[str, ...]) -> list[Acl]:
    return [Acl(Resource.TOPIC, name, operations) for name in names]
