"""A broker with ACLs: who comes by its plain port may do everything, a user who logs in what it was given."""

from __future__ import annotations

import re
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

from airflow_provider.control.application.rights import Acl, Role, acls_of
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.ports import free_ports
from tests.brokers import settings_of_broker
from tests.secured_listeners import SecuredListener, with_listeners

_START_S: Final = 600.0
_USERS: Final = {"app": "password-of-app", "other": "password-of-other", "guest": "password-of-guest"}
_OPERATION: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""Between the words of one in ``kafka-acls.sh``, which the client's library joins with ``_``."""

LOGIN = """\
bootstrap.servers={0.bootstrap_servers}
security.protocol={0.security_protocol}
sasl.mechanism={0.sasl_mechanism}
sasl.username={0.sasl_username}
sasl.password={0.sasl_password}
"""
"""The file by which a user of the broker logs in, to be filled with its connection."""


@dataclass(frozen=True)
class GuardedBroker:
    """The broker, and what its user may do.

    Args:
        bootstrap_servers: where every right is had.
        user: the connection of the user.
        another: the connection of another user.
        guest: the connection of a third.
    """

    bootstrap_servers: str
    user: KafkaConnection
    another: KafkaConnection
    guest: KafkaConnection

    @property
    def as_admin(self) -> KafkaConnection:
        """Where every right is had."""
        return KafkaConnection(self.bootstrap_servers)

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[GuardedBroker]:
        (port,) = free_ports(1)
        door = SecuredListener(name="USERS", port=port, protocol="SASL_PLAINTEXT", mechanism="PLAIN", users=_USERS)
        broker = EmbeddedBroker(with_listeners(settings_of_broker(folder), (door,), acls=True))
        try:
            broker.start(_START_S)
            users = [
                KafkaConnection(
                    door.bootstrap_servers,
                    security_protocol="SASL_PLAINTEXT",
                    sasl_mechanism="PLAIN",
                    sasl_username=name,
                    sasl_password=password,
                )
                for name, password in _USERS.items()
            ]
            yield cls(broker.bootstrap_servers, *users)
        finally:
            broker.stop()

    def grant(
        self, application_id: str, *roles: Role, source: str, sink: str, user: KafkaConnection | None = None
    ) -> None:
        """All that the page lists for these roles, and no more, to `user` unless it is for another."""
        self.grant_for(JobDescription.of_topics(application_id, sources=[source], outputs=[sink]), *roles, user=user)

    def grant_for(self, job: JobDescription, *roles: Role, user: KafkaConnection | None = None) -> None:
        """The same, for a job that is described."""
        principal = f"User:{(user or self.user).sasl_username}"
        for role in roles:
            granted = [(acl, name) for acl in acls_of(role, job) for name in acl.operations]
            self._add([_rule(acl, principal, name, AclPermissionType.ALLOW) for acl, name in granted])

    def take(self, acl: Acl) -> list[AclBinding]:
        """Take all of these rights from the user, whatever else grants them."""
        principal = f"User:{self.user.sasl_username}"
        rules = [_rule(acl, principal, name, AclPermissionType.DENY) for name in acl.operations]
        self._add(rules)
        return rules

    def deny(self, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
        """Take one right, whatever else grants it."""
        literal, principal = ResourcePatternType.LITERAL, f"User:{self.user.sasl_username}"
        rule = AclBinding(kind, name, literal, principal, "*", operation, AclPermissionType.DENY)
        self._add([rule])
        return rule

    def allow_again(self, denied: AclBinding) -> None:
        """Take back what `deny` did, or a part of `take`."""
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


def _rule(acl: Acl, principal: str, name: str, permission: AclPermissionType) -> AclBinding:
    kind = ResourceType[acl.resource.name]
    pattern = ResourcePatternType.PREFIXED if acl.prefixed else ResourcePatternType.LITERAL
    operation = AclOperation[_OPERATION.sub("_", name).upper()]
    return AclBinding(kind, acl.name, pattern, principal, "*", operation, permission)
