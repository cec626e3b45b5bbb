"""The demo's DAG file, and its broker and Airflow, started together and ended together."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from airflow_provider.demo.airflow_service import AirflowHome, AirflowService
from airflow_provider.demo.errors import DemoError
from airflow_provider.demo.folder import DemoFolder, end_launchers
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.ports import free_ports
from airflow_provider.kit.process import end_groups
from airflow_provider.kit.settings import BrokerSettings

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
        """Start both, side by side; Airflow is not ready yet when this returns.

        Args:
            timeout_s: how long each may take, of Airflow its database.

        Raises:
            StatefulStreamsError: one of them did not start.
        """
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
    """End what an earlier process left up on a folder.

    Returns:
        Whether anything was up.
    """
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
