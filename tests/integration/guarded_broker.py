"""A broker with ACLs: who comes by its plain port may do everything, a user who logs in what it was given."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.ports import LOOPBACK, free_ports
from tests.brokers import settings_of_broker

_START_S: Final = 180.0
_USER, _PASSWORD = "app", "secret"
_LOGIN: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{_USER}="{_PASSWORD}";'

# Of docs/airflow.md, "Rights".
OWN: Final = (
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
)
SOURCE: Final = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.READ)
SINK: Final = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.WRITE)
TRANSACTIONAL_IDS: Final = (AclOperation.DESCRIBE, AclOperation.WRITE)
GROUP: Final = (AclOperation.READ,)


@dataclass(frozen=True)
class GuardedBroker:
    """The broker, and what its user may do.

    Args:
        bootstrap_servers: where every right is had.
        user: the connection of the user.
    """

    bootstrap_servers: str
    user: KafkaConnection

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[GuardedBroker]:
        (port,) = free_ports(1)
        settings = settings_of_broker(folder)
        listeners = f"CLIENT://{settings.bootstrap_servers},USERS://{LOOPBACK}:{port}"
        rules = (
            ("listeners", f"{listeners},CONTROLLER://{LOOPBACK}:{settings.controller_port}"),
            ("advertised.listeners", listeners),
            ("listener.security.protocol.map", "CLIENT:PLAINTEXT,USERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"),
            ("listener.name.users.sasl.enabled.mechanisms", "PLAIN"),
            ("listener.name.users.plain.sasl.jaas.config", _LOGIN),
            ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            ("super.users", "User:ANONYMOUS"),
        )
        broker = EmbeddedBroker(dataclasses.replace(settings, overrides=rules))
        try:
            broker.start(_START_S)
            user = KafkaConnection(
                f"{LOOPBACK}:{port}",
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_username=_USER,
                sasl_password=_PASSWORD,
            )
            yield cls(broker.bootstrap_servers, user)
        finally:
            broker.stop()

    def grant_application(self, application_id: str, source: str, sink: str) -> None:
        """All that the page lists, and no more."""
        own = [f"{application_id}-{name}" for name in ("state-changelog", "assignment", "status", "history")]
        allow, prefixed = AclPermissionType.ALLOW, ResourcePatternType.PREFIXED
        self._add(
            [
                *(_rule(ResourceType.TOPIC, name, operation, allow) for name in own for operation in OWN),
                *(_rule(ResourceType.TOPIC, source, operation, allow) for operation in SOURCE),
                *(_rule(ResourceType.TOPIC, sink, operation, allow) for operation in SINK),
                *(
                    _rule(ResourceType.TRANSACTIONAL_ID, f"{application_id}-", operation, allow, prefixed)
                    for operation in TRANSACTIONAL_IDS
                ),
                *(_rule(ResourceType.GROUP, application_id, operation, allow) for operation in GROUP),
            ]
        )

    def deny(self, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
        """Take one right, whatever else grants it."""
        rule = _rule(kind, name, operation, AclPermissionType.DENY)
        self._add([rule])
        return rule

    def allow_again(self, denied: AclBinding) -> None:
        """Take back what `deny` did."""
        rule = AclBindingFilter(
            denied.restype,
            denied.name,
            denied.resource_pattern_type,
            denied.principal,
            denied.host,
            denied.operation,
            denied.permission_type,
        )
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        for done in admin.delete_acls([rule]).values():
            done.result(30.0)

    def _add(self, rules: list[AclBinding]) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})  # its futures end with it
        for done in admin.create_acls(rules).values():
            done.result(30.0)


def _rule(
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    permission: AclPermissionType,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{_USER}", "*", operation, permission)
