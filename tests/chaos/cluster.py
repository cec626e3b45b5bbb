"""An application on real parts: a broker of its own, instances through spark-submit, live load, a supervisor."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.publisher import AssignmentPublisher, retry_fenced
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.topics.writer import ControlWriter
from airflow_provider.errors import BrokerUnreachableError, FencedError, StatefulStreamsError
from airflow_provider.jars.jar_sets import spark_kafka_jars
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.ports import LOOPBACK, free_ports
from airflow_provider.kit.settings import BrokerSettings
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.instance_start import failed_process
from airflow_provider.launch.launcher import launch
from tests.chaos.health import Health, health
from tests.chaos.judge import Record
from tests.chaos.supervisor import Supervisor
from tests.chaos.workload import Workload
from tests.class_archive import java_options
from tests.kafka_proxy import KafkaProxy
from tests.waiting import wait_until

BALLAST: Final = "ballast"
"""Name of a file that fills a disk."""

_CLOCK = Path(__file__).parent / "clock"
_DISK_BYTES = 128 << 20
_SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1"
"""Java that is soon killed again need not be compiled twice."""
BROKER_START_S: Final = 240.0
"""How long the broker may take to start: the machine may be busy with more than one run."""


class Cluster:
    """Everything that faults are injected into. A context manager: nothing of it is left when it ends.

    Args:
        folder: for the broker, the stores and the logs.
        instances: how many.
        workload: the job, its load and its judge.
        rate: records a second.
        seed: of the load.
        heal_s: how long a fault may wait for what has to come true.
    """

    def __init__(self, folder: Path, instances: int, workload: Workload, rate: int, seed: int, heal_s: float) -> None:
        self.folder, self.workload, self.heal_s = folder, workload, heal_s
        self.application = workload.application
        self.names = [f"i{number}" for number in range(1, instances + 1)]
        """The instances that should live."""
        self.spare = f"i{instances + 1}"
        """One more, which is added and removed."""
        self.everyone = (*self.names, self.spare)
        self.proxies = {name: KafkaProxy() for name in self.everyone}
        """By instance, what stands between it and the broker."""
        self.broker = EmbeddedBroker(_settings(folder / "kafka", self.proxies))
        self.connection = KafkaConnection(self.broker.bootstrap_servers)
        self.load = workload.load(self.broker.bootstrap_servers, rate, seed)
        self.supervisor = Supervisor(
            self.connection,
            self.application,
            workload.tasks,
            self.names,
            self.launch,
            lambda name: bool(self.launcher(name)),
            folder / "supervisor.log",
        )
        self.before_launch: dict[str, list[Callable[[], None]]] = defaultdict(list)
        """By instance, what to do to its folder before it is launched again."""
        self.fail_points: dict[str, tuple[str, ...]] = {}
        """By instance, what its next process is to die at."""
        self.variants: dict[str, str] = {}
        """By instance, the variant of the job that is launched instead of the job."""
        self.problems: list[str] = []
        """What a fault waited for and did not come true."""
        self.lost_assignments: list[list[Record]] = []
        """What the earlier lives of the assignment topic held."""
        self.tampered: set[Path] = set()
        """Stores whose files were changed behind RocksDB's back."""
        self.run_dirs: dict[str, Path] = {}
        self._mounted: list[Path] = []
        self._launchers: dict[str, int] = {}
        self._seen: dict[int, psutil.Process] = {}

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _set_up(self) -> None:
        for proxy in self.proxies.values():
            proxy.__enter__()
        for name in self.everyone:
            self._mount(self.state_dir(name))
        self.broker.start(BROKER_START_S)
        self.workload.create_topics(self.connection)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.supervisor.stop()
        self.kill_all()
        self.broker.kill()
        for proxy in self.proxies.values():
            proxy.__exit__(None, None, None)
        for folder in self._mounted:
            # What lies there is kept: a run that went wrong is looked into.
            kept = folder.with_name(f"{folder.name}-kept")
            shutil.copytree(folder, kept, ignore=shutil.ignore_patterns(BALLAST), dirs_exist_ok=True)
            subprocess.run(["umount", "-l", str(folder)], check=False)

    def _mount(self, folder: Path) -> None:
        """A small file system for an instance's stores, so that it can be full; where mounting is not allowed, none."""
        folder.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            self._mounted.append(folder)

    def has_small_disk(self, name: str) -> bool:
        return self.state_dir(name) in self._mounted

    def start(self, deadline_s: float = 180.0, load: bool = True) -> None:
        """Launch every instance, assign every task, begin the load if asked; returns when every copy is warm."""
        for name in self.names:
            self.launch(name)
        self.supervisor.start()
        if load:
            self.load.start()
        wait_until(lambda: self.health().whole, deadline_s, "every task to run and to have its standby", 0.2)

    @property
    def view(self) -> ControlView:
        return self.supervisor.view

    def marks(self) -> dict[TaskId, int]:
        """By task, the offset after the last record of its source that is known to be committed."""
        return self.workload.marks(self.load.committed)

    def health(self) -> Health:
        """How far it is from whole, and up to where every task has committed."""
        return health(self.view, self.supervisor.silent_for_s(), self.names)

    # -- instances -----------------------------------------------------------------------------------------------

    def launch(self, name: str) -> int:
        """As `DeployInstanceOperator` does: claim the name with a new incarnation, then start spark-submit."""
        for prepare in self.before_launch.pop(name, ()):
            prepare()
        settings = retry_fenced(lambda: self._claim(name), self.application)
        command = [
            str(Path(sys.executable).parent / "spark-submit"),
            *("--master", "local[1]", "--driver-memory", "512m", "--conf", "spark.ui.enabled=false"),
            *("--conf", f"spark.driver.extraJavaOptions=-XX:+UseSerialGC {_SHORT_LIVED}"),
            *("--jars", ",".join(map(str, spark_kafka_jars()))),
            str(self.workload.job_file),
            *filter(None, [self.variants.get(name)]),
        ]
        root = str(Path(__file__).parents[2])
        paths = [str(_CLOCK), root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        environment = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            "CHAOS_CLOCK": str(self.clock(name)),
        }
        self._launchers[name] = launch(settings, command, environment).launcher_pid
        self.run_dirs[name] = Path(settings.run_dir)
        return settings.incarnation

    def _claim(self, name: str) -> InstanceSettings:
        publisher = AssignmentPublisher(self.connection, self.application)
        known = publisher.view.statuses.get(name)
        former = failed_process(publisher.view, name)
        incarnation = max(time.time_ns() // 1_000_000, known.incarnation + 1 if known else 0)
        claim = InstanceStatus(
            application_id=self.application,
            instance=name,
            incarnation=incarnation,
            state=InstanceState.STARTING,
            sent_at_ms=incarnation,
            former=former,
        )
        publisher.publish(None, claim)
        return InstanceSettings(
            application_id=self.application,
            instance=name,
            incarnation=incarnation,
            state_dir=str(self.state_dir(name)),
            run_dir=str(self.folder / "run" / f"{name}-{incarnation}"),
            connection=KafkaConnection(f"{LOOPBACK}:{self.proxies[name].port}"),
            former=former,
            fail_points=self.fail_points.pop(name, ()),
        )

    def state_dir(self, name: str) -> Path:
        return self.folder / "state" / name

    def clock(self, name: str) -> Path:
        """Holds the seconds by which an instance's clock is wrong."""
        return self.folder / f"clock-{name}"

    def stores(self, name: str) -> list[Path]:
        """The folders of an instance's stores."""
        return sorted((self.state_dir(name) / self.application).glob("*_*/rocksdb"))

    def processes(self, name: str) -> list[psutil.Process]:
        """Everything of an instance but its launcher: spark-submit, the driver, the Python workers."""
        with contextlib.suppress(psutil.NoSuchProcess):
            found = psutil.Process(self._launchers[name]).children(recursive=True)
            self._seen.update({process.pid: process for process in found})
            return [process for process in found if process.is_running()]
        return []

    def jvm(self, name: str) -> psutil.Process | None:
        return next((p for p in self.processes(name) if _command(p).startswith("java")), None)

    def driver(self, name: str) -> psutil.Process | None:
        return next(
            (
                p
                for p in self.processes(name)
                if self.workload.job_file.name in _command(p) and "java" not in _command(p)
            ),
            None,
        )

    def workers(self, name: str) -> list[psutil.Process]:
        """The Python workers; not the daemon that they are forked from."""
        daemons = [p for p in self.processes(name) if "pyspark.daemon" in _command(p)]
        pids = {p.pid for p in daemons}
        with contextlib.suppress(psutil.NoSuchProcess):
            return [p for p in daemons if p.ppid() in pids]
        return []

    def alive(self) -> list[str]:
        """Instances whose processes exist and that tell that they run."""
        statuses = self.view.statuses
        return [
            name
            for name in self.names
            if name in statuses and statuses[name].state is InstanceState.RUNNING and self.jvm(name) is not None
        ]

    def signal(self, processes: list[psutil.Process], number: signal.Signals) -> None:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def kill(self, name: str) -> None:
        """SIGKILL to all of an instance at once; its launcher lives on to tell."""
        self.signal(self.processes(name), signal.SIGKILL)

    def launcher(self, name: str) -> list[psutil.Process]:
        """The launcher of an instance; empty where it ended."""
        with contextlib.suppress(psutil.NoSuchProcess, KeyError):
            process = psutil.Process(self._launchers[name])
            return [process] if "airflow_provider.launch.launcher" in _command(process) else []
        return []

    def kill_all(self) -> None:
        """End whatever is left of any instance that was ever launched."""
        for name in self._launchers:
            launcher = self.launcher(name)
            self.kill(name)
            self.signal(launcher, signal.SIGKILL)
        self.signal([p for p in self._seen.values() if p.is_running()], signal.SIGKILL)

    # -- the control plane ---------------------------------------------------------------------------------------

    def publish(self, change: Callable[[Assignment], Mapping[TaskId, TaskAssignment]], reason: str) -> bool:
        """Publish what `change` makes of the newest assignment; says whether it could."""
        try:
            publisher = AssignmentPublisher(self.connection, self.application)
            newest = publisher.view.assignment
            if newest is not None:
                publisher.publish(newest.next(change(newest), reason, carried_out=0))
        except (FencedError, BrokerUnreachableError):
            return False
        return True

    def stop_instance(self, name: str) -> None:
        """Ask one to stop, as `StopInstanceOperator` does once its tasks were handed over."""
        status = self.view.statuses.get(name)
        if status is not None:
            incarnation = status.incarnation
            command = Command(
                id=f"stop-{name}-{incarnation}", kind=CommandKind.STOP, instance=name, incarnation=incarnation
            )
            with contextlib.suppress(StatefulStreamsError):
                ControlWriter(self.connection, self.application).write(command)

    def stop_instances(self, deadline_s: float = 60.0) -> list[str]:
        """Ask every instance to stop; returns those that did not."""
        self.supervisor.stop()
        for name in list(self.view.statuses):
            self.stop_instance(name)
        deadline = time.monotonic() + deadline_s
        while (left := [n for n in self.names if self.processes(n)]) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left


def _settings(folder: Path, proxies: Mapping[str, KafkaProxy]) -> BrokerSettings:
    """A broker with a further listener for each instance, which advertises the instance's proxy, and with ACLs.

    Who comes by its own port, as the load and the judge do, meets no proxy. Everybody may do what no ACL forbids.
    """
    settings = BrokerSettings.on_free_ports(
        folder, die_with_parent=True, java_options=(_SHORT_LIVED, *java_options("broker"))
    )
    plain = settings.to_properties(folder)
    served, advertised, protocols = (
        [plain[name]] for name in ("listeners", "advertised.listeners", "listener.security.protocol.map")
    )
    for (name, proxy), port in zip(proxies.items(), free_ports(len(proxies)), strict=True):
        proxy.broker_port = port
        served.append(f"{name.upper()}://{LOOPBACK}:{port}")
        advertised.append(f"{name.upper()}://{LOOPBACK}:{proxy.port}")
        protocols.append(f"{name.upper()}:PLAINTEXT")
    overrides = {
        "listeners": ",".join(served),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(protocols),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    return dataclasses.replace(settings, overrides=tuple(overrides.items()))


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        words = process.cmdline()
        return " ".join([Path(words[0]).name, *words[1:]]) if words else ""
    return ""
