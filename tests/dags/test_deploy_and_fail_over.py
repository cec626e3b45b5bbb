"""The deploy and the failover DAG from end to end, on a real broker, with instances that run no Spark."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.control.records.job_description import JobDescription, JobTopic, TopicKind, TopicRows
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from tests.airflow_connection import DEFAULT_CONNECTION, airflow_connection
from tests.brokers import settings_of_broker
from tests.builders import placed
from tests.spark_submit_stub import spark_submit_stub
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("airflow")

FAKE_INSTANCE = Path(__file__).parents[1] / "integration" / "airflow" / "fake_instance.py"
FILE = """
from airflow_provider import Instance, stream_dags

for application_id, instances in (("dag", "ab"), ("two", "abc"), ("lineage", "ab")):
    stream_dags(
        application_id,
        job={job!r},
        source_topics=["dag-source"],
        instances=[Instance(name, python={pythons}.get(name)) for name in instances],
        state_dir={state_dir!r},
        run_dir={run_dir!r},
        conf={{"spark.jars": "none.jar"}},
    )
"""


@pytest.fixture(scope="module")
def metadata_database() -> None:
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    with EmbeddedBroker(settings_of_broker(tmp_path_factory.mktemp("kafka"))) as broker:
        yield KafkaConnection(broker.bootstrap_servers)


Run = Callable[..., dict[str, str]]


@pytest.fixture
def run(
    cluster: KafkaConnection, metadata_database: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Runs a DAG in this process, with a spark-submit that runs the job file without Spark; each task's state."""
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv(DEFAULT_CONNECTION, airflow_connection(cluster))
    TopicAdmin(cluster).ensure([TopicSpec(name="dag-source", partitions=2)])
    job, file = tmp_path / "job.py", tmp_path / "dags" / "dags.py"
    file.parent.mkdir()
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [{"name": "team", "classpath": local, "kwargs": {"path": str(file.parent)}}]
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(bundles))
    job.write_text(FAKE_INSTANCE.read_text())
    with spark_submit_stub(tmp_path, monkeypatch) as run_dir:

        def run(
            dag_id: str, expected: str = "success", pythons: Mapping[str, str] | None = None, **conf: Any
        ) -> dict[str, str]:
            state_dir = str(tmp_path / "state")
            file.write_text(FILE.format(job=str(job), state_dir=state_dir, run_dir=str(run_dir), pythons=pythons or {}))
            bag = DagBag(dag_folder=str(file))
            assert not bag.import_errors
            timeouts = {name: 60 for name in bag.dags[dag_id].params if name.endswith("_timeout_s")}
            done = bag.dags[dag_id].test(run_conf={**timeouts, **conf})
            states = {ti.task_id: str(ti.state) for ti in done.get_task_instances()}
            assert done.state == expected, states
            return states

        yield run


def read(cluster: KafkaConnection, application_id: str = "dag") -> ControlView:
    with ControlReader(cluster, application_id) as reader:
        return reader.read_to_end()


def test_application_is_deployed_and_fails_over(cluster: KafkaConnection, run: Run) -> None:
    run("dag_deploy")

    view = read(cluster)
    assert view.assignment is not None
    assert placed(view.assignment) == ["a b", "b a"]
    assert {status.state for status in view.statuses.values()} == {InstanceState.RUNNING}

    os.killpg(os.getpgid(view.statuses["a"].process.pid), signal.SIGKILL)
    wait_until(lambda: read(cluster).statuses["a"].state is InstanceState.ENDED, 10.0, "the launcher to tell the end")
    run("dag_failover")
    states = run("dag_repair")

    after = read(cluster)
    assert after.assignment is not None
    # The replacement has its share again.
    assert sorted(placed(after.assignment)) == ["a b", "b a"]
    assert after.statuses["a"].incarnation > view.statuses["a"].incarnation
    (record,) = after.incidents.values()
    assert record.resolved_at_ms is not None
    assert states.pop("replace_b") == "skipped"
    assert set(states.values()) == {"success"}

    states = run("dag_failover")

    assert states["fail_over"] == "success"
    assert read(cluster).assignment == after.assignment

    run("dag_failover", instance="b")
    states = run("dag_repair")

    moved = read(cluster)
    assert moved.assignment is not None
    assert placed(moved.assignment) == ["a b", "a b"]
    assert moved.statuses["b"].incarnation == after.statuses["b"].incarnation
    assert (states["replace_a"], states["replace_b"]) == ("skipped", "skipped")
    assert states["report"] == "success"


@pytest.mark.long
def test_events_of_openlineage_have_the_topics_as_datasets(
    cluster: KafkaConnection, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the listener of its provider, which writes its events into a file."""
    from airflow.providers.openlineage.plugins.listener import OpenLineageListener
    from airflow.sdk.listener import get_listener_manager

    told = tmp_path / "events.json"
    transport = {"type": "file", "log_file_path": str(told), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    manager, listener = get_listener_manager(), OpenLineageListener()

    def events() -> list[dict[str, Any]]:
        return [json.loads(line) for line in told.read_text().splitlines()]

    manager.add_listener(listener)
    try:
        run("lineage_deploy")
        # Nobody has described this job.
        assert all(not event["inputs"] and not event["outputs"] for event in events())
        source = JobTopic(name="dag-source", kind=TopicKind.SOURCE, stage=0)
        sink = JobTopic(name="lineage-sink", kind=TopicKind.SINK, stage=0)
        made = TopicRows(columns={"n": "BIGINT"}, sources=("dag-source",), made_of={"n": {"dag-source": ("m",)}})
        job = JobDescription(application_id="lineage", stages=(), topics=(source, sink), rows={"lineage-sink": made})
        write_control(cluster, "lineage", job)
        told.unlink()
        run("lineage_deploy")
        # Nobody watches, so a promise is broken.
        run("lineage_monitor", "failed")
    finally:
        manager.pm.unregister(listener)

    expected = (f"kafka://{cluster.bootstrap_servers}", "dag-source")
    seen = dict[str, dict[str, dict[str, Any]]]()
    for event in events():
        seen.setdefault(event["job"]["name"], {})[event["eventType"]] = event
    deployed, checked = seen["lineage_deploy.deploy_a"], seen["lineage_monitor.check_slo"]
    assert {"START", "COMPLETE"} <= deployed.keys()
    assert {"START", "FAIL"} <= checked.keys()
    for event in (*deployed.values(), *checked.values()):
        assert [(one["namespace"], one["name"]) for one in event["inputs"]] == [expected]
        (written,) = event["outputs"]
        (field,) = written["facets"]["columnLineage"]["fields"]["n"]["inputFields"]
        assert (written["name"], field["namespace"], field["name"], field["field"]) == ("lineage-sink", *expected, "m")
    # Another operator reads and writes none of these topics.
    assert not any(event["inputs"] for event in seen["lineage_deploy.assign_tasks"].values())


@pytest.mark.long
def test_instance_that_cannot_be_replaced_costs_the_others_nothing(cluster: KafkaConnection, run: Run) -> None:
    run("two_deploy")
    view = read(cluster, "two")
    for name in ("a", "b"):
        os.killpg(os.getpgid(view.statuses[name].process.pid), signal.SIGKILL)
    ended = InstanceState.ENDED
    wait_until(
        lambda: [read(cluster, "two").statuses[name].state for name in ("a", "b")] == [ended, ended],
        20.0,
        "the launchers to tell the ends",
    )
    run("two_failover")

    # Its interpreter is gone from the host.
    states = run("two_repair", "failed", pythons={"b": "/nowhere/python"})

    after = read(cluster, "two")
    assert after.assignment is not None
    assert all(task.active and task.standbys for task in after.assignment.tasks.values())
    assert after.statuses["a"].state is InstanceState.RUNNING
    assert all(record.resolved_at_ms for record in after.incidents.values())
    assert (states["replace_a"], states["replace_b"]) == ("success", "failed")
    assert {states[name] for name in ("assign_standbys", "wait_until_warm", "report")} == {"success"}
    assert states["balance"] == "upstream_failed"
