"""The deploy and the failover DAG from end to end, on a real broker, with instances that run no Spark."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.control.reader import ControlReader
from airflow_provider.control.status import InstanceState
from airflow_provider.control.view import ControlView
from airflow_provider.control.writer import ControlWriter
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from tests.airflow_connection import DEFAULT_CONNECTION, airflow_connection
from tests.brokers import settings_of_broker
from tests.builders import placed
from tests.spark_submit_stub import spark_submit_stub
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
STEPS = ("deploy_replacement", "assign_standbys", "wait_until_warm", "report", "balance")
FAKE_INSTANCE = ROOT / "tests" / "integration" / "airflow" / "fake_instance.py"


@pytest.fixture(scope="module")
def metadata_database() -> None:
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    with EmbeddedBroker(settings_of_broker(tmp_path_factory.mktemp("kafka"))) as broker:
        yield KafkaConnection(broker.bootstrap_servers)


@pytest.fixture
def conf(
    cluster: KafkaConnection, metadata_database: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """What a person fills into the form; with a spark-submit that runs the job file without Spark."""
    monkeypatch.setenv(DEFAULT_CONNECTION, airflow_connection(cluster))
    TopicAdmin(cluster).ensure([TopicSpec(name="dag-source", partitions=2)])
    with spark_submit_stub(tmp_path, monkeypatch) as run_dir:
        yield {
            "application_id": "dag",
            "application": str(FAKE_INSTANCE),
            "source_topics": ["dag-source"],
            "stores": ["totals"],
            "instances": ["a", "b"],
            "state_dir": str(tmp_path / "state"),
            "run_dir": str(run_dir),
            "conf": {"spark.jars": "none.jar"},
            "start_timeout_s": 60,
            "warm_timeout_s": 60,
        }


def run(name: str, conf: dict[str, Any], expected: str = "success") -> dict[str, str]:
    """Run a DAG in this process; the state of each of its tasks."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags" / f"{name}.py"))
    (dag,) = bag.dags.values()
    done = dag.test(run_conf=conf)
    states = {f"{ti.task_id}[{ti.map_index}]": str(ti.state) for ti in done.get_task_instances()}
    assert done.state == expected, states
    return states


def read(cluster: KafkaConnection, application_id: str = "dag") -> ControlView:
    with ControlReader(cluster, application_id) as reader:
        return reader.read_to_end()


def test_application_is_deployed_and_fails_over(cluster: KafkaConnection, conf: dict[str, Any]) -> None:
    run("deploy", conf)

    view = read(cluster)
    assert view.assignment is not None
    assert placed(view.assignment) == ["a b", "b a"]
    assert {status.state for status in view.statuses.values()} == {InstanceState.RUNNING}

    os.killpg(os.getpgid(view.statuses["a"].process.pid), signal.SIGKILL)
    wait_until(lambda: read(cluster).statuses["a"].state is InstanceState.ENDED, 10.0, "the launcher to tell the end")
    run("failover", {"application_id": "dag"})
    states = run("repair", {"application_id": "dag", "start_timeout_s": 60, "warm_timeout_s": 60})

    after = read(cluster)
    assert after.assignment is not None
    # The replacement has its share again.
    assert sorted(placed(after.assignment)) == ["a b", "b a"]
    assert after.statuses["a"].incarnation > view.statuses["a"].incarnation
    (record,) = after.incidents.values()
    assert record.resolved_at_ms is not None
    assert set(states.values()) == {"success"}

    states = run("failover", {"application_id": "dag"})

    assert states["fail_over[-1]"] == "success"
    assert read(cluster).assignment == after.assignment

    run("failover", {"application_id": "dag", "instance": "b"})
    states = run("repair", {"application_id": "dag", "warm_timeout_s": 60})

    moved = read(cluster)
    assert moved.assignment is not None
    assert placed(moved.assignment) == ["a b", "a b"]
    assert moved.statuses["b"].incarnation == after.statuses["b"].incarnation
    assert states["deploy_replacement[0]"] == "skipped"
    assert states["balance[0]"] == "skipped"
    assert states["report[0]"] == "success"


def test_instance_that_cannot_be_replaced_costs_the_others_nothing(
    cluster: KafkaConnection, conf: dict[str, Any]
) -> None:
    run("deploy", {**conf, "application_id": "two", "stores": ["state"], "instances": ["a", "b", "c"]})
    view = read(cluster, "two")
    for name in ("a", "b"):
        os.killpg(os.getpgid(view.statuses[name].process.pid), signal.SIGKILL)
    # Its job file is gone from the host.
    broken = dataclasses.replace(view.deployments["b"], application="/nowhere/job.py")
    ControlWriter(cluster, "two").write(broken)
    ended = InstanceState.ENDED
    wait_until(
        lambda: [read(cluster, "two").statuses[name].state for name in ("a", "b")] == [ended, ended],
        20.0,
        "the launchers to tell the ends",
    )
    run("failover", {"application_id": "two"})

    states = run("repair", {"application_id": "two", "start_timeout_s": 60, "warm_timeout_s": 60}, "failed")

    after = read(cluster, "two")
    assert after.assignment is not None
    assert all(task.active and task.standbys for task in after.assignment.tasks.values())
    assert after.statuses["a"].state is InstanceState.RUNNING
    assert all(record.resolved_at_ms for record in after.incidents.values())
    by_task = {name: sorted(s for key, s in states.items() if key.startswith(f"{name}[")) for name in STEPS}
    assert by_task.pop("deploy_replacement") == ["failed", "success"]
    assert by_task.pop("balance") == ["success", "upstream_failed"]
    assert set(map(tuple, by_task.values())) == {("success", "success")}
