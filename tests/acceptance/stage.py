"""What the run plays on: the installed wheel, a broker, an Airflow, and the applications that are deployed there."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.settings import BrokerSettings
from tests.acceptance.airflow_parts import QUEUES, AirflowParts
from tests.acceptance.application import Application
from tests.acceptance.dag_file import DagFile
from tests.acceptance.errors import AcceptanceError
from tests.acceptance.installation import build_wheel, install
from tests.acceptance.report import Report

__all__ = ["Stage"]

_BROKER_S: Final = 240.0
_HISTORY_S: Final = 120.0


class Stage:
    """A context manager: nothing that was started here runs on when it ends.

    Args:
        folder: for everything.
        report: what a person reads.
        python: of an environment where the wheel is installed already; None makes one.
    """

    def __init__(self, folder: Path, report: Report, python: Path | None) -> None:
        self._folder, self._report, self._installed = folder, report, python
        self.applications: list[Application] = []
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._python = self._install()
            self._start()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def add(self, application_id: str, instances: list[str], *, partitions: int, rate: int, seed: int) -> Application:
        """An application that is not deployed yet; its source is there, as a team has it before it comes."""
        TopicAdmin(self._cluster).ensure([TopicSpec(name=f"{application_id}-input", partitions=partitions)])
        file = DagFile(application_id, self._folder, instances)
        application = Application(file, self.airflow, self._cluster, partitions=partitions, rate=rate, seed=seed)
        self.applications.append(application)
        return application

    def history_table(self, application: Application) -> str:
        """What ``stateful-streams history`` prints."""
        program, servers = str(self._python.with_name("stateful-streams")), self._broker.bootstrap_servers
        command = [program, "history", application.id, "--bootstrap-servers", servers]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=_HISTORY_S, check=False)
        if shown.returncode != 0:
            raise AcceptanceError(f"{' '.join(command)} ended with {shown.returncode}: {shown.stderr[-2000:]}")
        return shown.stdout

    def _install(self) -> Path:
        self._report.step("Build the wheel, install it in an environment of its own")
        if self._installed is not None:
            self._report.saw(f"left out: {self._installed} has it already")
            return self._installed
        began = time.monotonic()
        wheel = build_wheel(self._folder / "wheel")
        python = install(wheel, self._folder / "env")
        self._report.saw(f"{wheel.name} and its dependencies, in {time.monotonic() - began:.0f} s")
        return python

    def _start(self) -> None:
        self._report.step("Start a broker, and Airflow with two workers on two queues")
        java_options = ("-XX:TieredStopAtLevel=1",)
        settings = BrokerSettings.on_free_ports(self._folder / "kafka", die_with_parent=True, java_options=java_options)
        self._broker = EmbeddedBroker(settings)
        self._ends.callback(self._broker.stop)
        self._broker.start(_BROKER_S)
        self._cluster = KafkaConnection(self._broker.bootstrap_servers)
        self.airflow = AirflowParts(self._folder, self._python, self._broker.bootstrap_servers)
        # Airflow first, or it would answer the end of the instances; the broker last.
        self._ends.callback(self._end_instances)
        self._ends.callback(self.airflow.stop)
        self.airflow.start()
        self._report.saw(
            f"Kafka serves {self._broker.bootstrap_servers}, Airflow {self.airflow.address}; "
            f"worker-1 takes {QUEUES[0]} and what names no queue, worker-2 {QUEUES[1]}"
        )

    def _end_instances(self) -> None:
        for application in self.applications:
            application.end()
