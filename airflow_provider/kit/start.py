"""A broker's start: its data folder is made, it is waited for until it serves, and its users are stored."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from airflow_provider.kit.errors import BrokerStartError, KitError, PortBusyError
from airflow_provider.kit.folder import BrokerFolder, write_properties
from airflow_provider.kit.ports import LOOPBACK
from airflow_provider.kit.process import GroupLeader
from airflow_provider.kit.records import SILENT
from airflow_provider.kit.settings import BrokerSettings, SecuredListener


def format_storage(folder: BrokerFolder, settings: BrokerSettings, java: Sequence[str], timeout_s: float) -> None:
    """Make Kafka's data folder beside its place, then move it there: it is never seen half made.

    Raises:
        BrokerStartError: the tool failed or took too long.
    """
    scratch = folder.root / "data.new"
    shutil.rmtree(scratch, ignore_errors=True)
    properties = folder.root / "format.properties"
    write_properties(properties, settings.to_properties(scratch))
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    # An id may begin with a dash, which the tool takes for an option unless it is joined.
    command = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)]
    with folder.console_file.open("ab") as console:
        try:
            subprocess.run(command, stdout=console, stderr=console, timeout=timeout_s, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise BrokerStartError(
                f"Kafka could not format {scratch} within {timeout_s:.0f} s. Its last lines:\n{folder.last_lines()}"
            ) from error
    properties.unlink()
    scratch.rename(folder.data)


_PROBE_S: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class BrokerStart:
    """One start of a broker.

    Args:
        logs_before: their lengths before it (`BrokerFolder.log_sizes`).
        deadline: on the monotonic clock, in seconds.
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


_ITERATIONS: Final = 4096
"""The fewest that SCRAM knows, and what Kafka's own tools take."""


def store_scram_users(bootstrap_servers: str, listeners: Iterable[SecuredListener], timeout_s: float) -> None:
    """Store the users of all listeners with SCRAM, or their newest passwords.

    Args:
        bootstrap_servers: of a listener where nobody has to log in.

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
