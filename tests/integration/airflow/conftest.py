"""An Airflow without processes, and a connection of it to an application on the real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kit.broker import EmbeddedBroker
from tests.airflow_connection import DEFAULT_CONNECTION, airflow_connection
from tests.airflow_home import use_temporary_airflow_home
from tests.brokers import settings_of_broker
from tests.integration.launch.application import FAKE_INSTANCE, Application
from tests.spark_submit_stub import spark_submit_stub

if TYPE_CHECKING:
    from airflow_provider.operators.instance_deployment import DeployInstanceOperator
    from tests.integration.airflow.deployed_ledger import Ledger, Start
    from tests.integration.airflow.placed_hosts import PlacedHosts

# Before anything imports Airflow: so the fixtures below import its operators themselves.
use_temporary_airflow_home()


@pytest.fixture
def application(bootstrap_servers: str, application_id: str, monkeypatch: pytest.MonkeyPatch) -> Application:
    monkeypatch.setenv(DEFAULT_CONNECTION, airflow_connection(KafkaConnection(bootstrap_servers)))
    return Application.create(bootstrap_servers, application_id)


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for runs of instances that run no Spark."""
    with spark_submit_stub(tmp_path, monkeypatch) as run_dir:
        yield run_dir


Deploy = Callable[..., "DeployInstanceOperator"]


@pytest.fixture
def deploy(application: Application, spark_submit: Path, tmp_path: Path) -> Deploy:
    from airflow_provider.operators.instance_deployment import DeployInstanceOperator

    def make(instance: str, **more: Any) -> DeployInstanceOperator:
        arguments: dict[str, Any] = {
            "application": str(FAKE_INSTANCE),
            "state_dir": str(tmp_path / instance),
            "run_dir": str(spark_submit),
            "conf": {"spark.jars": "none.jar"},
            "start_timeout_s": 30.0,
        } | more
        return DeployInstanceOperator(task_id="deploy", application_id=application.id, instance=instance, **arguments)

    return make


@pytest.fixture
def pair(application: Application, deploy: Deploy) -> list[dict[str, Any]]:
    """Topics, two running instances, and the first assignment."""
    return make_pair(application, deploy)


def make_pair(application: Application, deploy: Deploy, **more: Any) -> list[dict[str, Any]]:
    """The same, with further arguments of the deployments."""
    from airflow_provider.operators.assignment import AssignTasksOperator
    from airflow_provider.operators.topics import CreateChangelogTopicsOperator
    from airflow_provider.sensors.figures import StandbyLagSensor
    from tests.integration.airflow.running import context, run

    create: dict[str, Any] = {"source_topics": f"{application.id}-source", "application_id": application.id}
    CreateChangelogTopicsOperator(task_id="topics", **create).execute(context())
    handles = [run(deploy(name, **more)) for name in ("a", "b")]
    run(AssignTasksOperator(task_id="assign", application_id=application.id))
    run(StandbyLagSensor(task_id="warm", application_id=application.id))
    return handles


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """The ledger on hosts of a placement, on a broker that lets everybody in."""
    from tests.integration.airflow.deployed_ledger import on_broker
    from tests.integration.airflow.placed_hosts import START_S

    broker = EmbeddedBroker(settings_of_broker(tmp_path / "kafka"))
    made: list[Ledger] = []

    def begin(placement: type[PlacedHosts]) -> Ledger:
        connection = KafkaConnection(broker.bootstrap_servers)
        made.append(on_broker(placement, tmp_path, monkeypatch, connection, connection))
        return made[-1]

    try:
        broker.start(START_S)
        yield begin
    finally:
        for ledger in made:
            ledger.close()
        broker.kill()
