"""What the demo stands on: a broker and an Airflow, started together and ended together."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import airflow_provider
from airflow_provider.connection import KafkaConnection
from airflow_provider.demo.airflow_home import AirflowHome
from airflow_provider.demo.airflow_service import AirflowService
from airflow_provider.demo.child import end_groups
from airflow_provider.demo.errors import DemoError
from airflow_provider.demo.folder import DemoFolder
from airflow_provider.demo.instance_processes import end_launchers
from airflow_provider.embedded.broker import EmbeddedBroker
from airflow_provider.embedded.ports import free_ports
from airflow_provider.embedded.settings import BrokerSettings
from airflow_provider.errors import StatefulStreamsError

__all__ = ["Stage", "strike"]

_AIRFLOW_S: Final = 8.0
_GOODBYE_S: Final = 10.0


class Stage:
    """A broker and an Airflow of the demo's own.

    Args:
        folder: the demo's.
        application_id: whose failures start the failover DAG.
        spark_master: of Airflow's Spark connection.
        lives_on: whether it may outlive this process; otherwise all but the instances is killed with it.
    """

    def __init__(self, folder: DemoFolder, application_id: str, spark_master: str, lives_on: bool) -> None:
        self.folder = folder
        dags = Path(airflow_provider.__file__).resolve().parent.parent / "dags"
        if not dags.is_dir():
            raise DemoError(f"Found no DAGs in {dags}: run the demo from a checkout of the repository.")
        self.broker = EmbeddedBroker(BrokerSettings.on_free_ports(folder.kafka, die_with_parent=not lives_on))
        (airflow_port,) = free_ports(1)
        home = AirflowHome(
            folder.airflow, dags, airflow_port, self.broker.bootstrap_servers, spark_master, application_id
        )
        self.airflow = AirflowService(home, folder.logs, die_with_parent=not lives_on)

    @property
    def connection(self) -> KafkaConnection:
        """To the broker."""
        return KafkaConnection(self.broker.bootstrap_servers)

    def start(self) -> None:
        """Start both, side by side; Airflow is not ready yet when this returns.

        Raises:
            StatefulStreamsError: one of them did not start.
        """
        with ThreadPoolExecutor(1) as pool:
            broker = pool.submit(self.broker.start)
            self.airflow.prepare()
            self.airflow.start()
            self.folder.write(self.airflow.home.address, [child.leader for child in self.airflow.children])
            try:
                broker.result()
            except StatefulStreamsError as error:
                raise DemoError(str(error), self.broker.log_file) from error

    def stop(self) -> None:
        """End all of it. Airflow first, or it would answer the end of the instances; the broker last."""
        with contextlib.ExitStack() as steps:  # the last one first, and each whatever became of the others
            steps.callback((self.folder.root / "demo.json").unlink, missing_ok=True)
            steps.callback(self.broker.stop)
            steps.callback(end_launchers, self.folder.run.absolute(), _GOODBYE_S)
            steps.callback(self.airflow.stop, _AIRFLOW_S)


def strike(folder: DemoFolder) -> bool:
    """End what an earlier process left up on a folder.

    Returns:
        Whether anything was.
    """
    if not folder.is_up():
        return False
    end_groups(folder.airflow_leaders(), _AIRFLOW_S)
    end_launchers(folder.run.absolute(), _GOODBYE_S)
    broker = EmbeddedBroker.find(folder.kafka)
    if broker is not None:
        with contextlib.suppress(StatefulStreamsError):
            broker.stop()
    (folder.root / "demo.json").unlink(missing_ok=True)
    return True
