"""A real Kafka broker on loopback, without Docker: its data folder is made, it is waited for."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from airflow_provider.jars.jar_sets import find_java, kafka_broker_jars
from airflow_provider.kit.errors import BrokerFolderError, BrokerStartError, KitError, PortBusyError
from airflow_provider.kit.folder import BrokerFolder, Tenant, write_properties
from airflow_provider.kit.ports import LOOPBACK, require_free
from airflow_provider.kit.process import Child, GroupLeader
from airflow_provider.kit.records import SILENT
from airflow_provider.kit.settings import BrokerSettings


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


def _listens(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _is_registered(admin: AdminClient, node_id: int) -> bool:
    try:
        return node_id in admin.list_topics(timeout=1.0).brokers
    except KafkaException:
        return False


class EmbeddedBroker:
    """One Kafka broker, in a process group of its own.

    Which process runs on a folder is noted in the folder, so that any process can ask, stop, kill or restart the
    broker, not only the one that started it. A folder whose broker has died is used again with all its data; one with a
    living broker is refused.

    As a context manager it starts on entry and stops on exit.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.folder = BrokerFolder(settings.directory.absolute())
        self._child: Child | None = None

    @classmethod
    def find(cls, directory: Path) -> EmbeddedBroker | None:
        """Return the broker that runs on a folder, by whichever process it was started; None when none runs.

        It has default settings but for its ports: good to stop, kill and connect, not to restart with others.
        """
        tenant = BrokerFolder(directory.absolute()).living_tenant()
        if tenant is None:
            return None
        return cls(BrokerSettings(directory=directory, port=tenant.port, controller_port=tenant.controller_port))

    @property
    def bootstrap_servers(self) -> str:
        """What a client is given to connect."""
        return self.settings.bootstrap_servers

    @property
    def log_file(self) -> Path:
        """Kafka's log."""
        return self.folder.log_file

    @property
    def pid(self) -> int | None:
        """The broker's process, which leads a group of the same number; None when it is not running."""
        tenant = self.folder.living_tenant()
        return None if tenant is None else tenant.leader.pid

    @property
    def is_running(self) -> bool:
        """Whether a living broker is on the folder."""
        return self.pid is not None

    def start(self, timeout_s: float = 60.0) -> Self:
        """Start the broker and return once it serves clients.

        Args:
            timeout_s: how long it may take until it is ready. Resolving the jars comes before and is not counted.

        Raises:
            BrokerFolderError: a living broker is on the folder, or something that the kit did not make.
            PortBusyError: another program listens on one of the ports.
            BrokerStartError: it ended or was not ready in time; the end of its logs is in the error.
            JavaError: there is no fitting Java.
            JarsError: Kafka's jars could not be resolved.
        """
        java = [str(find_java()), "-cp", os.pathsep.join(str(jar) for jar in kafka_broker_jars())]
        with self.folder.held():
            self._refuse_what_is_taken()
            logs_before, deadline = self.folder.log_sizes(), time.monotonic() + timeout_s
            self.folder.write_settings(self.settings.to_properties(self.folder.data), self.settings.log_level)
            if not self.folder.is_formatted():
                format_storage(self.folder, self.settings, java, timeout_s)
            leader = self._launch(java)
            try:
                self.await_ready(leader, deadline, timeout_s, logs_before)
            except BaseException:
                self._kill(leader)
                raise
        return self

    def await_ready(
        self, leader: GroupLeader, deadline: float, timeout_s: float, logs_before: Mapping[Path, int]
    ) -> None:
        """Return when the broker names itself to a client, which it does once its controller has registered it.

        Args:
            logs_before: how long its logs were (`BrokerFolder.log_sizes`): the rest is quoted in errors.

        Raises:
            PortBusyError: another program took a port while the broker started.
            BrokerStartError: the broker ended, or was not ready at the deadline.
        """
        admin: AdminClient | None = None
        while True:
            if not leader.is_alive():
                raise self._failure("ended while it started", logs_before)
            if time.monotonic() >= deadline:
                how = (
                    f"was not ready within {timeout_s:g} s; a busy machine may need longer (the kit's --start-timeout)"
                )
                raise self._failure(how, logs_before)
            # librdkafka backs off longer after each refused connection, so it is asked once the port is open.
            if admin is None and _listens(self.settings.port):
                admin = AdminClient({"bootstrap.servers": self.settings.bootstrap_servers}, logger=SILENT)
            if admin is not None and _is_registered(admin, self.settings.node_id):
                return
            time.sleep(_PROBE_S)

    def _failure(self, how: str, logs_before: Mapping[Path, int]) -> KitError:
        tail = self.folder.last_lines(after=logs_before)
        if "Address already in use" in tail:
            return PortBusyError(
                f"Port {self.settings.port} or {self.settings.controller_port} on {LOOPBACK} was taken by another "
                "program while the kit's broker started. Start it again, or choose other ports."
            )
        return BrokerStartError(f"The broker on {self.folder.root} {how}. Its last lines:\n{tail}")

    def stop(self, timeout_s: float = 15.0) -> None:
        """Let the broker write everything to disk and end; kill its group when it takes longer.

        Returns when it is gone. Does nothing when it is not running.
        """
        with self.folder.held():
            tenant = self.folder.living_tenant()
            if tenant is not None:
                tenant.leader.signal_group(signal.SIGTERM)
                if not tenant.leader.has_ended(within_s=timeout_s):
                    self._kill(tenant.leader)
            self._reap()

    def kill(self) -> None:
        """End the broker with SIGKILL, as a crash would, and return when it is gone."""
        with self.folder.held():
            tenant = self.folder.living_tenant()
            if tenant is not None:
                self._kill(tenant.leader)
            self._reap()

    def restart(self, timeout_s: float = 60.0) -> Self:
        """Start it again on the same data and ports, after stopping it when it runs.

        Raises:
            StatefulStreamsError: as `start` does.
        """
        self.stop()
        return self.start(timeout_s)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _refuse_what_is_taken(self) -> None:
        tenant = self.folder.living_tenant()
        if tenant is not None:
            raise BrokerFolderError(
                f"Found a running broker (process {tenant.leader.pid}, port {tenant.port}) on {self.folder.root}, "
                "expected none: each broker needs a folder of its own. Stop that one, or choose another folder."
            )
        require_free(self.settings.port, "the kit's broker")
        require_free(self.settings.controller_port, "the kit's broker's controller")

    def _launch(self, java: list[str]) -> GroupLeader:
        options = [*self.settings.to_java_options(), f"-Dlog4j2.configurationFile={self.folder.log4j_file}"]
        self._child = Child(
            "broker",
            [java[0], *options, *java[1:], "kafka.Kafka", str(self.folder.properties_file)],
            self.folder.console_file,
            die_with_parent=self.settings.die_with_parent,
        )
        self.folder.write_tenant(Tenant(self._child.leader, self.settings.port, self.settings.controller_port))
        return self._child.leader

    def _kill(self, leader: GroupLeader) -> None:
        leader.signal_group(signal.SIGKILL)
        leader.has_ended(within_s=10.0)
        self._reap()

    def _reap(self) -> None:
        if self._child is not None:
            self._child.reap()
            self._child = None
