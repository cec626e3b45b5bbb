"""A right on brokers that have ACLs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import Enum

from airflow_provider.errors import ConfigurationError


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
