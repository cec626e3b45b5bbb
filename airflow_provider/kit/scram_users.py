"""The users of SCRAM, which a broker keeps in its cluster's metadata."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from airflow_provider.kit.client_log import SILENT
from airflow_provider.kit.errors import BrokerStartError
from airflow_provider.kit.secured_listener import SecuredListener

__all__ = ["store_scram_users"]

_ITERATIONS: Final = 4096
"""The fewest that SCRAM knows, and what Kafka's own tools take."""


def store_scram_users(bootstrap_servers: str, listeners: Iterable[SecuredListener], timeout_s: float) -> None:
    """Store the users of all listeners with SCRAM, or their newest passwords.

    Args:
        bootstrap_servers: of a listener where nobody has to log in.
        listeners: of the broker.
        timeout_s: how long it may take.

    Raises:
        BrokerStartError: they could not be stored.
    """
    secured = [listener for listener in listeners if listener.scram_users]
    if not secured:
        return
    admin = AdminClient({"bootstrap.servers": bootstrap_servers}, logger=SILENT)  # its futures end with it
    try:
        # A request for each: no user may be in one twice, not even with two mechanisms.
        for listener in secured:
            for stored in admin.alter_user_scram_credentials(_upsertions(listener)).values():
                stored.result(timeout_s)
    except (KafkaException, TimeoutError) as error:
        raise BrokerStartError(f"The users of SCRAM could not be stored at {bootstrap_servers} ({error}).") from error


def _upsertions(listener: SecuredListener) -> list[UserScramCredentialAlteration]:
    credential = ScramCredentialInfo(ScramMechanism[str(listener.mechanism).replace("-", "_")], _ITERATIONS)
    return [
        UserScramCredentialUpsertion(name, credential, password.encode())
        for name, password in listener.scram_users.items()
    ]
