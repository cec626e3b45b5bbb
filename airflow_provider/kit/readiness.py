"""Waiting for a broker that starts until it serves clients."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from airflow_provider.kit.client_log import SILENT
from airflow_provider.kit.errors import BrokerStartError, KitError, PortBusyError
from airflow_provider.kit.folder import BrokerFolder
from airflow_provider.kit.ports import LOOPBACK
from airflow_provider.kit.process import GroupLeader
from airflow_provider.kit.settings import BrokerSettings

__all__ = ["BrokerStart", "wait_until_ready"]

_PROBE_S: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class BrokerStart:
    """One start of a broker.

    Args:
        settings: the broker's settings.
        folder: the broker's folder, whose logs are quoted in errors.
        logs_before: their lengths before it (`BrokerFolder.log_sizes`).
        deadline: on the monotonic clock, in seconds.
        timeout_s: how long it was given.
    """

    settings: BrokerSettings
    folder: BrokerFolder
    logs_before: Mapping[Path, int]
    deadline: float
    timeout_s: float

    def failure(self, how: str) -> KitError:
        """The error that it ends with."""
        tail = self.folder.last_lines(after=self.logs_before)
        if "Address already in use" in tail:
            return PortBusyError(
                f"Port {self.settings.port} or {self.settings.controller_port} on {LOOPBACK} was taken by another "
                "program while the kit's broker started. Start it again, or choose other ports."
            )
        return BrokerStartError(f"The broker on {self.folder.root} {how}. Its last lines:\n{tail}")


def wait_until_ready(leader: GroupLeader, start: BrokerStart) -> None:
    """Return when the broker names itself to a client, which it does once its controller has registered it.

    Args:
        leader: the broker's process.
        start: of it.

    Raises:
        PortBusyError: another program took a port while the broker started.
        BrokerStartError: the broker ended, or was not ready at the deadline.
    """
    admin: AdminClient | None = None
    while True:
        if not leader.is_alive():
            raise start.failure("ended while it started")
        if time.monotonic() >= start.deadline:
            raise start.failure(
                f"was not ready within {start.timeout_s:g} s; a busy machine may need longer "
                "(the kit's --start-timeout)"
            )
        # librdkafka backs off longer after each refused connection, so it is asked once the port is open.
        if admin is None and _listens(start.settings.port):
            admin = AdminClient({"bootstrap.servers": start.settings.bootstrap_servers}, logger=SILENT)
        if admin is not None and _is_registered(admin, start.settings.node_id):
            return
        time.sleep(_PROBE_S)


def _listens(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _is_registered(admin: AdminClient, node_id: int) -> bool:
    try:
        return node_id in admin.list_topics(timeout=1.0).brokers
    except KafkaException:
        return False
