"""A real Kafka broker on loopback, without Docker."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from airflow_provider.jars.jar_sets import kafka_broker_jars
from airflow_provider.jars.java import find_java
from airflow_provider.kit.errors import BrokerFolderError
from airflow_provider.kit.folder import BrokerFolder, Tenant
from airflow_provider.kit.ports import require_free
from airflow_provider.kit.process import Child, GroupLeader
from airflow_provider.kit.settings import BrokerSettings
from airflow_provider.kit.start import BrokerStart, format_storage, store_scram_users, wait_until_ready


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
            start = BrokerStart(
                settings=self.settings,
                folder=self.folder,
                logs_before=self.folder.log_sizes(),
                deadline=time.monotonic() + timeout_s,
                timeout_s=timeout_s,
            )
            self.folder.write_settings(self.settings.to_properties(self.folder.data), self.settings.log_level)
            if not self.folder.is_formatted():
                format_storage(self.folder, self.settings, java, timeout_s)
            leader = self._launch(java)
            try:
                wait_until_ready(leader, start)
                store_scram_users(
                    self.settings.bootstrap_servers,
                    self.settings.secured_listeners,
                    max(1.0, start.deadline - time.monotonic()),
                )
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        for listener in self.settings.secured_listeners:
            require_free(listener.port, f"the listener {listener.name} of the kit's broker")

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
