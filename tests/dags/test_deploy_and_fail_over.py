"""The deploy and the failover DAG from end to end, on a real broker, with instances that run no Spark."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.connection import KafkaConnection
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.status import InstanceState
from airflow_provider.control.view import ControlView
from airflow_provider.embedded.broker import EmbeddedBroker
from airflow_provider.embedded.settings import BrokerSettings
from airflow_provider.topics import TopicAdmin, TopicSpec
from tests.builders import placed
from tests.spark_submit_stub import spark_submit_stub
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
FAKE_INSTANCE = ROOT / "tests" / "integration" / "airflow" / "fake_instance.py"


@pytest.fixture(scope="module")
def metadata_database() -> None:
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    with EmbeddedBroker(BrokerSettings.on_free_ports(tmp_path_factory.mktemp("kafka"), die_with_parent=True)) as broker:
        yield KafkaConnection(broker.bootstrap_servers)


@pytest.fixture
def conf(
    cluster: KafkaConnection, metadata_database: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """What a person fills into the form; with a spark-submit that runs the job's file without Spark."""
    extra = {"bootstrap_servers": cluster.bootstrap_servers}
    connection = json.dumps({"conn_type": "kafka_streams", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_STREAMS_DEFAULT", connection)
    TopicAdmin(cluster).ensure([TopicSpec("dag-source", 2)])
    with spark_submit_stub(tmp_path, monkeypatch) as run_dir:
        yield {
            "application_id": "dag",
            "application": str(FAKE_INSTANCE),
            "source_topics": ["dag-source"],
            "instances": ["a", "b"],
            "state_dir": str(tmp_path / "state"),
            "run_dir": str(run_dir),
            "conf": {"spark.jars": "none.jar"},
            "start_timeout_s": 60,
            "warm_timeout_s": 60,
        }


def run(name: str, conf: dict[str, Any]) -> dict[str, str]:
    """Run a DAG in this process; the state of each of its tasks."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags" / f"{name}.py"))
    (dag,) = bag.dags.values()
    done = dag.test(run_conf=conf)
    assert done.state == "success", {ti.task_id: ti.state for ti in done.get_task_instances()}
    return {f"{ti.task_id}[{ti.map_index}]": str(ti.state) for ti in done.get_task_instances()}


def read(cluster: KafkaConnection) -> ControlView:
    with ControlReader(cluster, "dag") as reader:
        return reader.read_to_end()


def test_application_is_deployed_and_fails_over(cluster: KafkaConnection, conf: dict[str, Any]) -> None:
    run("deploy", conf)

    view = read(cluster)
    assert view.assignment is not None
    assert placed(view.assignment) == ["a b", "b a"]
    assert {status.state for status in view.statuses.values()} == {InstanceState.RUNNING}

    os.killpg(os.getpgid(view.statuses["a"].pid), signal.SIGKILL)
    wait_until(lambda: read(cluster).statuses["a"].state is InstanceState.ENDED, 10.0, "the launcher to tell the end")
    states = run("failover", {"application_id": "dag", "start_timeout_s": 60, "warm_timeout_s": 60})

    after = read(cluster)
    assert after.assignment is not None
    assert placed(after.assignment) == ["b a", "b a"]
    assert after.statuses["a"].incarnation > view.statuses["a"].incarnation
    (record,) = after.incidents.values()
    assert record.resolved_at_ms is not None
    assert set(states.values()) == {"success"}

    states = run("failover", {"application_id": "dag"})

    assert states["fail_over[-1]"] == "success"
    assert read(cluster).assignment == after.assignment

    states = run("failover", {"application_id": "dag", "instance": "b", "warm_timeout_s": 60})

    moved = read(cluster)
    assert moved.assignment is not None
    assert placed(moved.assignment) == ["a b", "a b"]
    assert moved.statuses["b"].incarnation == after.statuses["b"].incarnation
    assert states["deploy_replacement[0]"] == "skipped"
    assert states["report[0]"] == "success"
