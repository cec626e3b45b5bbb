"""A standalone cluster of Spark whose workers are hosts: each with an address, a name and a disk of its own."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

import psutil
import pyspark
import pytest

from airflow_provider.common.host_name import HOST_VARIABLE
from airflow_provider.kit.ports import free_ports
from tests.waiting import wait_until

__all__ = ["SparkCluster", "needs_namespaces"]

_ROOT: Final = Path(__file__).parents[1]
_SPARK: Final = Path(pyspark.__file__).parent
_UNSHARE: Final = ("unshare", "--mount", "--propagation", "private")
_UP_S: Final = 300.0


def needs_namespaces() -> None:
    """Skip the test where no mount namespace can be made: hosts would share their disks."""
    if (
        shutil.which("unshare") is None
        or subprocess.run([*_UNSHARE, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("hosts with disks of their own are mount namespaces: needs unshare and the right to mount")


class SparkCluster:
    """A master, and workers that come and go.

    What lies under `disk` is another folder on each host.

    Args:
        folder: for logs, disks and scratch.
        cores: of each worker.
        remembers: whether the master keeps what it knows for the one that comes back (``spark.deploy.recoveryMode``);
            to be changed between two masters.
    """

    def __init__(self, folder: Path, cores: int, *, remembers: bool = False) -> None:
        self._folder, self._cores, self.remembers = folder, cores, remembers
        self.disk = folder / "disk"
        self.disk.mkdir(parents=True)
        self._port, self._ui = free_ports(2)
        self.master = f"spark://127.0.0.1:{self._port}"
        self._processes: dict[str, psutil.Process] = {}

    def start(self) -> None:
        """The master."""
        words = ("--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._ui))
        recovery = self._folder / "recovery"
        how = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={recovery}"
        self._begin("master", "org.apache.spark.deploy.master.Master", *words, java=how if self.remembers else "")
        self._wait("master", "I have been elected leader")

    def restart_master(self) -> None:
        """Kill it, and start it again at the same address; returns once each worker is registered with it."""
        workers = len(self._processes) - 1
        self.lose("master")
        self.start()
        log = self._folder / "master.log"
        line = "has been re-registered: worker" if self.remembers else "Registering worker"
        wait_until(lambda: log.read_text(errors="replace").count(line) >= workers, _UP_S, f"{workers} to be back")

    def add(self, host: str, number: int) -> None:
        """A worker on a new host, or on one that comes back.

        Args:
            host: its name.
            number: of its address.
        """
        own = self.disk_of(host)
        own.mkdir(exist_ok=True)
        address, work = f"127.0.0.{number}", self._folder / f"work-{host}"
        words = ["--host", address, "--cores", str(self._cores), "--memory", "2g", "--work-dir", str(work)]
        words += ["--webui-port", str(*free_ports(1)), self.master]
        self._begin(host, "org.apache.spark.deploy.worker.Worker", *words, address=address, disk=own)
        self._wait(host, "Successfully registered with master")

    def disk_of(self, host: str) -> Path:
        """Where the host's disk is seen from outside."""
        return self._folder / f"disk-{host}"

    def executors(self, host: str) -> list[psutil.Process]:
        """The executors that the worker of a host runs."""
        backend = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
        with contextlib.suppress(psutil.NoSuchProcess):
            found = self._processes[host].children(recursive=True)
            return [process for process in found if backend in _arguments(process)]
        return []

    def freeze(self, host: str) -> None:
        """All processes of a host stand still, as behind a network that is cut."""
        for process in (parent := self._processes[host], *parent.children(recursive=True)):
            process.suspend()

    def lose(self, host: str) -> None:
        """All processes of a host at once: daemon, executors and their Python."""
        parent = self._processes.pop(host)
        with contextlib.suppress(psutil.NoSuchProcess):
            parent.suspend()
            for process in (*parent.children(recursive=True), parent):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        (self._folder / f"{host}.log").unlink()

    def stop(self) -> None:
        """All of it."""
        for host in list(self._processes):
            self.lose(host)

    def _begin(
        self, name: str, main: str, *words: str, address: str = "127.0.0.1", disk: Path | None = None, java: str = ""
    ) -> None:
        command = [str(_SPARK / "bin" / "spark-class"), main, *words]
        if disk is not None:
            mounted = (
                f"mount --bind {shlex.quote(str(disk))} {shlex.quote(str(self.disk))} && exec {shlex.join(command)}"
            )
            command = [*_UNSHARE, "sh", "-c", mounted]
        environment = {
            **os.environ,
            "SPARK_HOME": str(_SPARK),
            "SPARK_LOCAL_IP": address,
            "PYTHONPATH": str(_ROOT),
            HOST_VARIABLE: name,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": java,
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            started = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        self._processes[name] = psutil.Process(started.pid)

    def _wait(self, name: str, line: str) -> None:
        log = self._folder / f"{name}.log"
        wait_until(lambda: re.search(line, log.read_text(errors="replace")), _UP_S, f"{name} to say {line!r}")


def _arguments(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []
