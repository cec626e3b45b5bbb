"""What a demo is made of: its folder, its DAG file, and its broker and Airflow, started and ended together."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from airflow_provider.demo.airflow_service import AirflowHome, AirflowService
from airflow_provider.demo.errors import DemoError, DemoFolderError
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.folder import BrokerFolder
from airflow_provider.kit.ports import free_ports
from airflow_provider.kit.process import GroupLeader, end_groups
from airflow_provider.kit.settings import BrokerSettings
from airflow_provider.launch.launcher import LAUNCHER

_GONE: Final = (psutil.NoSuchProcess, psutil.AccessDenied)


def launchers_under(run_dir: Path) -> list[psutil.Process]:
    """Return the living launchers of the instances whose folders lie in `run_dir`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(*_GONE):
            command = process.cmdline()
            if LAUNCHER in command and Path(command[-1]).parent == run_dir and process.status() != "zombie":
                found.append(process)
    return found


def end_launchers(run_dir: Path, timeout_s: float) -> None:
    """Stop the instances cleanly, and kill what is left after the timeout; return when all are gone."""
    launchers = launchers_under(run_dir)
    families = [*launchers, *(child for launcher in launchers for child in _family(launcher)[1:])]
    for launcher in launchers:
        with contextlib.suppress(*_GONE):
            launcher.terminate()  # it asks the instance to stop
    _, living = psutil.wait_procs(families, timeout=timeout_s)
    for process in living:
        with contextlib.suppress(*_GONE):
            process.kill()
    psutil.wait_procs(living, timeout=5.0)


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except _GONE:
        return []


class DemoFolder:
    """Owns the truth of which demo is up.

    ::

        lock            held by a demo while it works, and by `down`
        demo.json       Airflow's processes and address
        kafka/          the broker's folder
        dags/           the DAG file
        airflow/        AIRFLOW_HOME
        logs/           a log for each of Airflow's components
        run/            a folder for each launch of an instance, with its log
        state/          a folder for each instance, with its stores
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kafka, self.dags, self.airflow = root / "kafka", root / "dags", root / "airflow"
        self.logs, self.run, self.state = root / "logs", root / "run", root / "state"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other demos off the folder. A dead holder holds nothing."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DemoFolderError(
                    f"Another demo works on {self.root}: wait for its end, or interrupt it where it runs."
                ) from None
            yield

    def clear(self) -> None:
        """Remove what an earlier demo left."""
        if self.is_up():
            raise DemoFolderError(f"A demo is up on {self.root}: end it with 'make down' first.")
        for path in (self.kafka, self.dags, self.airflow, self.logs, self.run, self.state):
            shutil.rmtree(path, ignore_errors=True)
        (self.root / "demo.json").unlink(missing_ok=True)

    def is_up(self) -> bool:
        """Whether a process of a demo lives."""
        return bool(self.airflow_leaders() or self.has_broker() or launchers_under(self.run))

    def has_broker(self) -> bool:
        """Whether its broker lives."""
        return BrokerFolder(self.kafka).living_tenant() is not None

    def write(self, address: str, leaders: Sequence[GroupLeader]) -> None:
        """Note what runs, for `down`."""
        note = {"airflow": address, "processes": [[leader.pid, leader.started] for leader in leaders]}
        scratch = self.root / "demo.json.new"
        scratch.write_text(json.dumps(note), encoding="utf-8")
        scratch.replace(self.root / "demo.json")

    def airflow_leaders(self) -> list[GroupLeader]:
        """Airflow's processes that live."""
        leaders = [GroupLeader(pid, started) for pid, started in self._note().get("processes", [])]
        return [leader for leader in leaders if leader.is_alive()]

    def task_log(self, dag_id: str, task_id: str) -> Path | None:
        """Return the newest log of a DAG's task; None when there is none."""
        return _newest((self.airflow / "logs" / f"dag_id={dag_id}").glob(f"run_id=*/task_id={task_id}/**/*.log"))

    def newest_log(self) -> Path | None:
        """Return the newest log of the instances and of the DAGs' tasks; None when there is none."""
        return _newest([*self.run.glob("*/instance.log"), *self.airflow.glob("logs/dag_id=*/**/*.log")])

    def _note(self) -> dict[str, Any]:
        try:
            note: dict[str, Any] = json.loads((self.root / "demo.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return note


def _newest(logs: Iterable[Path]) -> Path | None:
    return max(logs, key=lambda path: path.stat().st_mtime, default=None)


_TEXT = '''"""The DAGs of the demo's application."""

from airflow_provider import Drill, Instance, stream_dags

stream_dags(
    {application_id!r},
    job={job!r},
    instances=[{instances}],
    drills=[Drill("crash")],
    monitor_schedule=None,
    state_dir={state_dir!r},
    run_dir={run_dir!r},
    conf={conf!r},
)
'''


def dag_file(
    *,
    application_id: str,
    job: Path,
    instances: Sequence[str],
    state_dir: Path,
    run_dir: Path,
    conf: Mapping[str, str],
) -> str:
    """The text of the file."""
    return _TEXT.format(
        application_id=application_id,
        job=str(job),
        instances=", ".join(f"Instance({name!r})" for name in instances),
        state_dir=str(state_dir),
        run_dir=str(run_dir),
        conf=dict(conf),
    )


_AIRFLOW_S: Final = 8.0
_CLEAN_STOP_S: Final = 10.0


class Stage:
    """A broker and an Airflow of the demo's own.

    Args:
        lives_on: whether it may outlive this process; otherwise all but the instances is killed with it.
    """

    def __init__(self, folder: DemoFolder, dag_file: str, spark_master: str, lives_on: bool) -> None:
        self.folder = folder
        self._dag_file = dag_file
        self.broker = EmbeddedBroker(BrokerSettings.on_free_ports(folder.kafka, die_with_parent=not lives_on))
        (airflow_port,) = free_ports(1)
        home = AirflowHome(folder.airflow, folder.dags, airflow_port, self.broker.bootstrap_servers, spark_master)
        self.airflow = AirflowService(home, folder.logs, die_with_parent=not lives_on)

    @property
    def connection(self) -> KafkaConnection:
        """To the broker."""
        return KafkaConnection(self.broker.bootstrap_servers)

    def start(self, timeout_s: float) -> None:
        """Start both, side by side; Airflow is not ready yet when this returns."""
        self.folder.dags.mkdir(parents=True, exist_ok=True)
        (self.folder.dags / "flights_dags.py").write_text(self._dag_file, encoding="utf-8")
        with ThreadPoolExecutor(1) as pool:
            broker = pool.submit(self.broker.start, timeout_s)
            self.airflow.prepare(timeout_s)
            self.airflow.start()
            self.folder.write(self.airflow.home.address, [child.leader for child in self.airflow.children])
            try:
                broker.result()
            except StatefulStreamsError as error:
                raise DemoError(str(error), self.broker.log_file) from error

    def stop(self) -> None:
        """End all of it. Airflow first, or it would answer the end of the instances; the broker last."""
        with contextlib.ExitStack() as steps:  # the last one first, and each even if another fails
            steps.callback((self.folder.root / "demo.json").unlink, missing_ok=True)
            steps.callback(self.broker.stop)
            steps.callback(end_launchers, self.folder.run.absolute(), _CLEAN_STOP_S)
            steps.callback(self.airflow.stop, _AIRFLOW_S)


def tear_down(folder: DemoFolder) -> bool:
    """End what an earlier process left up on a folder; returns whether anything was up."""
    if not folder.is_up():
        return False
    end_groups(folder.airflow_leaders(), _AIRFLOW_S)
    end_launchers(folder.run.absolute(), _CLEAN_STOP_S)
    broker = EmbeddedBroker.find(folder.kafka)
    if broker is not None:
        with contextlib.suppress(StatefulStreamsError):
            broker.stop()
    (folder.root / "demo.json").unlink(missing_ok=True)
    return True
