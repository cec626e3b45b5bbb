"""A real Kafka broker on loopback, without Docker.

`python -m airflow_provider.embedded.broker --dir D --port P` runs one in the foreground until SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from airflow_provider.embedded.errors import BrokerFolderError, BrokerStartError, PortBusyError
from airflow_provider.embedded.folder import BrokerFolder, Tenant
from airflow_provider.embedded.guard import start_guard
from airflow_provider.embedded.jars import kafka_broker_jars
from airflow_provider.embedded.java import find_java
from airflow_provider.embedded.ports import LOOPBACK, free_ports, require_free
from airflow_provider.embedded.process import GroupLeader
from airflow_provider.embedded.settings import BrokerSettings

__all__ = ["EmbeddedBroker", "main"]

_PROBE_S = 0.05

# What a client logs about a broker that is only just starting is no news.
_silent = logging.Logger("airflow_provider.embedded.probe", level=logging.CRITICAL + 1)


class EmbeddedBroker:
    """One Kafka broker, in a process group of its own.

    Who runs on a folder is noted in the folder, so that any process can ask, stop, kill or restart the broker,
    not only the one that started it. A folder whose broker has died is used again with all its data; one with a
    living broker is refused.

    As a context manager it starts on entry and stops on exit.

    Args:
        settings: the broker's settings.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.folder = BrokerFolder(settings.directory.absolute())
        self._child: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @classmethod
    def find(cls, directory: Path) -> EmbeddedBroker | None:
        """The broker that runs on a folder, whoever started it; None when none does.

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
            BrokerFolderError: a living broker is on the folder, or something that no embedded broker made.
            PortBusyError: somebody listens on one of the ports.
            BrokerStartError: it ended or was not ready in time; the end of its logs is in the error.
            JavaError: there is no fitting Java.
            JarsError: Kafka's jars could not be resolved.
        """
        java = [str(find_java()), "-cp", os.pathsep.join(str(jar) for jar in kafka_broker_jars())]
        with self.folder.held():
            self._refuse_what_is_taken()
            deadline = time.monotonic() + timeout_s
            self.folder.write_settings(self.settings.to_properties(self.folder.data), self.settings.log_level)
            if not self.folder.is_formatted():
                self._format(java, timeout_s)
            leader = self._launch(java)
            try:
                self._wait_until_ready(leader, deadline)
            except BaseException:
                self._kill(leader)
                raise
        return self

    def stop(self, timeout_s: float = 15.0) -> None:
        """Let the broker write everything to disk and end; kill its group when it takes longer.

        Returns when it is gone. Does nothing when it is not running.
        """
        with self.folder.held():
            tenant = self.folder.living_tenant()
            if tenant is not None:
                self._disarm()
                tenant.leader.signal_group(signal.SIGTERM)
                if not tenant.leader.has_ended(within_s=timeout_s):
                    self._kill(tenant.leader)
            self._forget()

    def kill(self) -> None:
        """End the broker with SIGKILL, as a crash would, and return when it is gone."""
        with self.folder.held():
            tenant = self.folder.living_tenant()
            if tenant is not None:
                self._kill(tenant.leader)
            self._forget()

    def restart(self, timeout_s: float = 60.0) -> Self:
        """Start it again on the same data and ports, after stopping it when it runs.

        Raises:
            StatefulStreamsError: as `start` does.
        """
        self.stop()
        return self.start(timeout_s)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _refuse_what_is_taken(self) -> None:
        tenant = self.folder.living_tenant()
        if tenant is not None:
            raise BrokerFolderError(
                f"Found a living broker (process {tenant.leader.pid}, port {tenant.port}) on {self.folder.root}, "
                "need a folder of its own for each. Stop that one, or choose another folder."
            )
        require_free(self.settings.port, "the embedded broker")
        require_free(self.settings.controller_port, "the embedded broker's controller")

    def _format(self, java: list[str], timeout_s: float) -> None:
        """Make Kafka's data folder beside its place, then move it there: it is never seen half made."""
        scratch = self.folder.root / "data.new"
        shutil.rmtree(scratch, ignore_errors=True)
        properties = self.folder.root / "format.properties"
        lines = [f"{key}={value}\n" for key, value in self.settings.to_properties(scratch).items()]
        properties.write_text("".join(lines), encoding="utf-8")
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        with self.folder.console_file.open("ab") as console:
            try:
                done = subprocess.run(
                    # An id may begin with a dash, which the tool takes for an option unless it is joined.
                    [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)],
                    stdout=console,
                    stderr=console,
                    timeout=timeout_s,
                    check=False,
                )
                failed = done.returncode != 0
            except subprocess.TimeoutExpired:
                failed = True
        if failed:
            raise BrokerStartError(
                f"Kafka could not format {scratch} within {timeout_s:.0f} s. "
                f"Its last lines:\n{self.folder.last_lines()}"
            )
        properties.unlink()
        scratch.rename(self.folder.data)

    def _launch(self, java: list[str]) -> GroupLeader:
        options = [*self.settings.to_java_options(), f"-Dlog4j2.configurationFile={self.folder.log4j_file}"]
        command = [java[0], *options, *java[1:], "kafka.Kafka", str(self.folder.properties_file)]
        with self.folder.console_file.open("ab") as console:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
            )
        leader = GroupLeader.of(self._child.pid)
        if self.settings.die_with_parent:
            self._guard = start_guard(leader)
        self.folder.write_tenant(Tenant(leader, self.settings.port, self.settings.controller_port))
        return leader

    def _wait_until_ready(self, leader: GroupLeader, deadline: float) -> None:
        """Return when a client is told of this broker by itself, which it is once the controller let it in."""
        admin: AdminClient | None = None
        while True:
            if not leader.is_alive():
                raise self._failed_to_start("ended while it started")
            if time.monotonic() >= deadline:
                raise self._failed_to_start("was not ready within the deadline")
            # librdkafka backs off longer after each refused connection, so it is asked once somebody listens.
            if admin is None and self._listens():
                admin = AdminClient({"bootstrap.servers": self.bootstrap_servers}, logger=_silent)
            if admin is not None and self._is_registered(admin):
                return
            time.sleep(_PROBE_S)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((LOOPBACK, self.settings.port)) == 0

    def _is_registered(self, admin: AdminClient) -> bool:
        try:
            return self.settings.node_id in admin.list_topics(timeout=1.0).brokers
        except KafkaException:
            return False

    def _failed_to_start(self, how: str) -> BrokerStartError | PortBusyError:
        tail = self.folder.last_lines()
        if "Address already in use" in tail:
            return PortBusyError(
                f"Port {self.settings.port} or {self.settings.controller_port} on {LOOPBACK} was taken by "
                "somebody else while the embedded broker started. Start it again, or choose other ports."
            )
        return BrokerStartError(f"The broker on {self.folder.root} {how}. Its last lines:\n{tail}")

    def _kill(self, leader: GroupLeader) -> None:
        self._disarm()
        leader.signal_group(signal.SIGKILL)
        leader.has_ended(within_s=10.0)
        self._forget()

    def _disarm(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None

    def _forget(self) -> None:
        """Take the end of our own child to its record, so that it does not stay behind as a zombie."""
        self._disarm()
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(timeout=10.0)
            self._child = None


def main(arguments: list[str] | None = None) -> None:
    """Run one broker until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m airflow_provider.embedded.broker", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="the broker's folder; used again with its data")
    parser.add_argument("--port", type=int, help="where clients connect; a free one when absent")
    parser.add_argument("--controller-port", type=int, help="where the controller listens; a free one when absent")
    asked = parser.parse_args(arguments)
    port, controller_port = free_ports(2)
    settings = BrokerSettings(
        directory=asked.dir,
        port=asked.port or port,
        controller_port=asked.controller_port or controller_port,
        die_with_parent=True,
    )
    told_to_end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told_to_end.set())
    broker = EmbeddedBroker(settings)
    with broker:
        print(f"Kafka serves {broker.bootstrap_servers}; its log is {broker.log_file}", flush=True)
        while not told_to_end.wait(timeout=1.0):
            if not broker.is_running:
                raise BrokerStartError(f"The broker ended by itself. Its last lines:\n{broker.folder.last_lines()}")


if __name__ == "__main__":
    main()
