"""Instances of the ledger on hosts of their own, by placement: how one is deployed, its host lost and brought back."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.common.host_name import HOST_VARIABLE
from airflow_provider.launch.leftovers import InstanceProcesses
from airflow_provider.operators.instance_commands import StopInstanceOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from tests.integration.airflow.running import context, run
from tests.plain_supervisor import PlainSupervisor
from tests.spark_cluster import SparkCluster

ROOT: Final = Path(__file__).parents[3]
JOB: Final = ROOT / "tests" / "chaos" / "ledger_job.py"
APPLICATION: Final = "ledger"
START_S: Final = 600.0
OF: Final[dict[str, Any]] = {"application_id": APPLICATION, "start_timeout_s": START_S}

_SPARK: Final = {
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
SPARK_SECRET: Final = "the-secret-of-the-cluster"
_AUTHENTICATED: Final = f"""
spark.authenticate true
spark.authenticate.secret {SPARK_SECRET}
spark.network.crypto.enabled true
"""
_PATH: Final = {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}


class PlacedHosts(ABC):
    """Where instances live.

    Args:
        folder: for all of it.
        environment: sets variables of this process for the test.
    """

    def __init__(self, folder: Path, environment: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.environment = environment

    @abstractmethod
    def deploy(self, name: str) -> dict[str, Any]:
        """Have an instance run, as the deploy DAG and the repair do; its handle."""

    @abstractmethod
    def lose(self, name: str, host: str) -> None:
        """Kill all processes of the host that has an instance's stores."""

    @abstractmethod
    def repair(self, name: str, host: str) -> dict[str, Any]:
        """The lost host comes back, and its instance on it; the handle."""

    def state_dir(self, name: str, host: str) -> Path:
        """Where an instance's stores lie on a host, seen from the test."""
        return self.folder / name / "state"

    def stop(self, names: Sequence[str]) -> None:
        """Stop instances, cleanly."""
        for name in names:
            run(StopInstanceOperator(task_id=f"stop_{name}", instance=name, **OF))

    @abstractmethod
    def kill(self) -> None:
        """Kill what is left of all."""


class OnWorkers(PlacedHosts):
    """The deploy task launches it on its worker: with a folder and a name for each host."""

    master = "local[1]"
    conf: Mapping[str, str] = {}
    version = "1"
    """In the environment of what is deployed, so that a deployment can be changed."""

    def __init__(self, folder: Path, environment: pytest.MonkeyPatch) -> None:
        super().__init__(folder, environment)
        described = {"conn_type": "spark", "host": self.master}
        environment.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(described))
        self._names: set[str] = set()

    def deploy(self, name: str, on_change: str = "fail", run_id: str = "run-1") -> dict[str, Any]:
        self._names.add(name)
        handle: dict[str, Any] = run(
            DeployInstanceOperator(
                task_id=f"deploy_{name}",
                instance=name,
                application=str(JOB),
                state_dir=str(self.given_state_dir(name)),
                run_dir=str(self._run_dir(name)),
                spark_conn_id="spark_default",
                conf={**_SPARK, **self.conf},
                env_vars={**_PATH, HOST_VARIABLE: self.driver_host(name), "VERSION": self.version},
                on_change=on_change,
                **OF,
            ),
            context(run_id),
        )
        return handle

    def lose(self, name: str, host: str) -> None:
        self.processes(name).kill()

    def repair(self, name: str, host: str) -> dict[str, Any]:
        return self.deploy(name)

    def given_state_dir(self, name: str) -> Path:
        """As the instance is told."""
        return self.folder / name / "state"

    def driver_host(self, name: str) -> str:
        return f"host-{name}"

    def processes(self, name: str) -> InstanceProcesses:
        return InstanceProcesses(self._run_dir(name), APPLICATION, name)

    def kill(self) -> None:
        for name in self._names:
            self.processes(name).kill()

    def _run_dir(self, name: str) -> Path:
        return self.folder / name / "run"


class Supervised(PlacedHosts):
    """A plain supervisor of each host keeps it, and Airflow waits."""

    def __init__(self, folder: Path, environment: pytest.MonkeyPatch) -> None:
        super().__init__(folder, environment)
        self._kept: dict[str, PlainSupervisor] = {}
        self.ends = {-9}
        """The exit statuses that the command may have had before its last one."""

    def deploy(self, name: str) -> dict[str, Any]:
        if name not in self._kept:
            self._kept[name] = self._supervisor(name)
            self._kept[name].start()
        handle: dict[str, Any] = run(
            DeployInstanceOperator(
                task_id=f"deploy_{name}", instance=name, application=str(JOB), placement="supervised", **OF
            )
        )
        return handle

    def lose(self, name: str, host: str) -> None:
        self._kept[name].kill_whole()

    def kill_processes(self, name: str) -> None:
        """Command, launcher, driver and workers, with SIGKILL; the supervisor starts the command again at once."""
        self._kept[name].kill_whole()
        self._kept[name].bring_back()

    def repair(self, name: str, host: str) -> dict[str, Any]:
        self._kept[name].bring_back()
        # As the repair DAG of no application in particular does it, which finds out that it is supervised.
        handle: dict[str, Any] = run(DeployInstanceOperator(task_id="replace", instance=name, **OF))
        return handle

    def stop(self, names: Sequence[str]) -> None:
        for name in names:
            self._kept[name].stop()
            assert self._kept[name].statuses[-1] == ExitStatus.FINE
            assert set(self._kept[name].statuses[:-1]) <= self.ends

    def kill(self) -> None:
        for supervisor in self._kept.values():
            supervisor.stop()

    def _supervisor(self, name: str) -> PlainSupervisor:
        host = self.folder / name
        host.mkdir()
        servers = json.loads(os.environ["AIRFLOW_CONN_KAFKA_STREAMS_DEFAULT"])["extra"]["bootstrap_servers"]
        return PlainSupervisor(
            APPLICATION,
            name,
            JOB,
            host / "run",
            *("--bootstrap-servers", servers, "--state-dir", str(host / "state"), "--master", "local[1]"),
            *("--conf", "spark.driver.memory=512m", "--start-timeout", str(START_S), "--hang-timeout", str(START_S)),
            environment={**_PATH, HOST_VARIABLE: f"host-{name}"},
            log_file=host / "supervised.log",
        )


class OnCluster(OnWorkers):
    """Drivers on the test's own host, stores on the workers of a Spark cluster.

    Each worker has room for two instances, so that there is room elsewhere when one is lost. Spark's parts prove to
    each other who they are, by a secret of the file in which people put it.
    """

    cores = 2
    remembers = False
    """Whether its master does, over its own end."""
    conf: Mapping[str, str] = {"spark.executor.cores": "1", "spark.executor.memory": "600m"}

    def __init__(self, folder: Path, environment: pytest.MonkeyPatch) -> None:
        conf = folder / "spark-conf"
        conf.mkdir(mode=0o700)
        (conf / "spark-defaults.conf").write_text(_AUTHENTICATED)
        environment.setenv("SPARK_CONF_DIR", str(conf))
        self.cluster = SparkCluster(folder / "cluster", cores=self.cores, remembers=self.remembers)
        self.master = self.cluster.master
        self._numbers: dict[str, int] = {}
        super().__init__(folder, environment)
        self.cluster.start()

    def add_host(self, host: str) -> None:
        self.cluster.add(host, self._numbers.setdefault(host, 2 + len(self._numbers)))

    def lose(self, name: str, host: str) -> None:
        self.cluster.lose(host)

    def repair(self, name: str, host: str) -> dict[str, Any]:
        """Elsewhere first; on the host that came back once it is started again there."""
        elsewhere = self.deploy(name)
        self.add_host(host)
        self.stop([name])
        handle = self.deploy(name)
        assert handle["incarnation"] > elsewhere["incarnation"]
        return handle

    def driver_host(self, name: str) -> str:
        return "airflow"

    def given_state_dir(self, name: str) -> Path:
        return self.cluster.disk / name

    def state_dir(self, name: str, host: str) -> Path:
        return self.cluster.disk_of(host) / name

    def kill(self) -> None:
        super().kill()
        self.cluster.stop()


class OnFullCluster(OnCluster):
    """The same with room for one instance on each worker: Spark finds no other place for what was lost."""

    cores = 1


class OnRememberingCluster(OnCluster):
    """The same with a master that comes back as it was."""

    remembers = True
