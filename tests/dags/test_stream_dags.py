"""An application whose DAGs one call made, deployed, drilled, failed over, upgraded, scaled, watched, stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_provider.control.history.topic import read_history
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord
from airflow_provider.control.records.incident import Action
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from tests.airflow_connection import DEFAULT_CONNECTION, airflow_connection
from tests.brokers import settings_of_broker
from tests.builders import placed
from tests.spark_submit_stub import spark_submit_stub
from tests.waiting import wait_until
from tests.watched import watched

pytestmark = pytest.mark.long

FAKE_INSTANCE = Path(__file__).parents[1] / "integration" / "airflow" / "fake_instance.py"
FILE = """
from airflow_provider import Drill, Instance, Slo, stream_dags

stream_dags(
    "orders",
    job="jobs/fake_instance.py",
    source_topics=["orders"],
    output_topics=["totals"],
    instances=[Instance("a"), Instance("b"), Instance("c")],
    slo=Slo(rto_s=600, lag_s=30),
    drills=[Drill("crash")],
    state_dir={state_dir!r},
    run_dir={run_dir!r},
    conf={{"spark.jars": "none.jar"}},
    env_vars={{"VERSION": "{version}"}},
    default_args={{"retries": 3}},
)
"""
# A drill waits for what other DAGs do, so it runs beside them.
RUN_ALONE = """
import sys
from airflow.dag_processing.dagbag import DagBag

done = DagBag(dag_folder=sys.argv[1]).dags[sys.argv[2]].test()
sys.exit(done.state != "success")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    from airflow.utils.db import initdb

    initdb()
    with EmbeddedBroker(settings_of_broker(tmp_path_factory.mktemp("kafka"))) as broker:
        yield KafkaConnection(broker.bootstrap_servers)


class Team:
    """Writes the DAG file, and runs its DAGs in this process."""

    def __init__(self, folder: Path, run_dir: Path, cluster: KafkaConnection) -> None:
        self._folder, self._run_dir, self._cluster = folder, run_dir, cluster
        self.admin = TopicAdmin(cluster)
        self.write("1")

    def write(self, version: str) -> None:
        file = self._folder / "dags" / "orders_dags.py"
        file.write_text(FILE.format(state_dir=str(self._folder / "state"), run_dir=str(self._run_dir), version=version))

    def run(self, name: str, expected: str = "success", **conf: Any) -> dict[str, str]:
        """The state of each task."""
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag(dag_folder=str(self._folder / "dags"))
        assert not bag.import_errors
        done = bag.dags[f"orders_{name}"].test(run_conf=conf)
        states = {ti.task_id: str(ti.state) for ti in done.get_task_instances()}
        assert done.state == expected, states
        return states

    def begin(self, name: str) -> subprocess.Popen[bytes]:
        """A run in a process of its own."""
        return subprocess.Popen([sys.executable, "-c", RUN_ALONE, str(self._folder / "dags"), f"orders_{name}"])

    def links(self, name: str) -> dict[str, str]:
        """By task and key, those of all runs that lead somewhere, as the API server reads them."""
        from airflow.models.xcom import XComModel
        from airflow.serialization.definitions.operatorlink import XComOperatorLink
        from airflow.utils.session import create_session

        with create_session() as session:
            columns = (XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.map_index, XComModel.key)
            wanted = session.query(*columns).filter(XComModel.dag_id == f"orders_{name}")
            found = [row for row in wanted if row.key.startswith("_link_")]
        links = {
            f"{row.task_id}/{row.key.removeprefix('_link_')}": XComOperatorLink(row.key, row.key).get_link(
                cast(Any, None), ti_key=cast(Any, row)
            )
            for row in found
        }
        return {name: link for name, link in links.items() if link}

    def certified(self, instance: str) -> list[str]:
        tasks = self.view().statuses[instance].tasks
        return [str(task.task) for task in tasks if task.certificate.position is not None]

    def history(self) -> Sequence[HistoryRecord]:
        return read_history(self._cluster, "orders")

    def stores_of(self, instance: str) -> Path:
        """Where the database of its first task lies."""
        return self._folder / "state" / instance / "orders" / "0_0" / "rocksdb"

    def view(self) -> ControlView:
        with ControlReader(self._cluster, "orders") as reader:
            return reader.read_to_end()

    def places(self) -> list[str]:
        assignment = self.view().assignment
        assert assignment is not None
        return placed(assignment)

    def running(self) -> dict[str, int]:
        """The incarnation of each instance that runs."""
        statuses = self.view().statuses
        return {name: s.incarnation for name, s in statuses.items() if s.state is InstanceState.RUNNING}


@pytest.fixture
def team(cluster: KafkaConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    monkeypatch.setenv(DEFAULT_CONNECTION, airflow_connection(cluster))
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [{"name": "team", "classpath": local, "kwargs": {"path": str(tmp_path / "dags")}}]
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(bundles))
    monkeypatch.setenv("AIRFLOW__STATEFUL_STREAMS__LOG_URL", "https://logs/{application_id}-{instance}-{incarnation}")
    TopicAdmin(cluster).ensure([TopicSpec(name="orders", partitions=2)])
    # The job's path is relative to the DAG file.
    (tmp_path / "dags" / "jobs").mkdir(parents=True)
    (tmp_path / "dags" / "jobs" / "fake_instance.py").write_text(FAKE_INSTANCE.read_text())
    with spark_submit_stub(tmp_path, monkeypatch) as run_dir:
        yield Team(tmp_path, run_dir, cluster)


def test_application_lives_from_one_call(team: Team) -> None:
    # Three instances in the file, two at first.
    team.run("deploy")
    team.run("scale", instances=["a", "b"])
    assert set(team.running()) == {"a", "b"}
    assert sorted(team.places()) == ["a b", "b a"]
    # Whole, and nothing watches it.
    team.run("monitor", "failed")
    with watched("orders"):
        lives_on(team)


def lives_on(team: Team) -> None:
    team.run("monitor")

    skipped = team.run("drill_crash", blackout=["mon-sun"])
    assert set(skipped.values()) == {"skipped"}

    drill = team.begin("drill_crash")
    wait_until(lambda: team.view().statuses["a"].state is InstanceState.ENDED, 300.0, "the launcher to report the end")
    team.run("monitor", "failed")
    before = team.running()
    team.run("failover")
    states = team.run("repair")
    assert states["replace_a"] == "success"
    assert states["replace_b"] == "skipped"
    links = team.links("repair")
    assert set(links) == {"replace_a/InstanceLogLink", "report/FailoverRunLink"}
    assert links["replace_a/InstanceLogLink"].startswith("https://logs/orders-a-")
    assert links["report/FailoverRunLink"].startswith("/dags/orders_failover/runs/manual__")
    assert states["balance"] == "success"
    assert sorted(team.places()) == ["a b", "b a"]
    assert team.running()["b"] == before["b"]
    assert drill.wait(120.0) == 0
    team.run("monitor")
    not_begun, rehearsed, failover = team.history()
    assert (not_begun.kind, not_begun.outcome) == (HistoryKind.DRILL, HistoryOutcome.SKIPPED)
    assert "blackout" in str(not_begun.reason)
    assert (rehearsed.kind, rehearsed.outcome) == (HistoryKind.DRILL, HistoryOutcome.PASSED)
    assert (failover.kind, failover.outcome) == (HistoryKind.FAILOVER, HistoryOutcome.PASSED)
    assert rehearsed.instances == failover.instances == ("a",)
    assert rehearsed.rto == failover.rto
    assert (rehearsed.slo_met, failover.slo_met) == (True, True)
    assert [(decision.action, decision.to) for decision in failover.decisions] == [(Action.PROMOTE, "b")]
    # By defaults, as no failover was on record: detected, decided, owned, first output.
    assert rehearsed.predicted_rto_ms == 100 + 3_000 + 500 + 1_000
    assert rehearsed.prediction_error_percent is not None

    before = team.running()
    team.write("2")
    team.run("upgrade", dry_run=True)
    assert team.running() == before
    team.run("upgrade")
    after = team.running()
    assert all(after[name] > before[name] for name in before)
    assert team.view().deployments["b"].env_vars["VERSION"] == "2"
    upgrades = [record for record in team.history() if record.kind is HistoryKind.UPGRADE]
    assert [(record.instances, record.outcome) for record in upgrades] == [
        (("a",), HistoryOutcome.PASSED),
        (("b",), HistoryOutcome.PASSED),
    ]
    assert sorted(team.places()) == ["a b", "b a"]

    team.run("scale", instances=["b", "c"])
    assert set(team.running()) == {"b", "c"}
    assert sorted(team.places()) == ["b c", "c b"]

    assert team.run("operate", action="certify_standbys")["snapshot_standbys"] == "skipped"
    standby_of = [place.split()[1] for place in team.places()]
    assert [team.certified(name) for name in standby_of] == [["0_0"], ["0_1"]]
    of_c = f"0_{standby_of.index('c')}"
    states = team.run("operate", action="snapshot_standbys", instances=["c"], tasks=[of_c])
    assert states["snapshot_standbys"] == "success"

    team.run("operate", action="pause", instances=["c"])
    assert [team.view().statuses[name].paused for name in ("b", "c")] == [False, True]
    team.run("monitor", "failed")
    team.run("operate", action="resume")
    assert not team.view().statuses["c"].paused

    team.run("operate", action="stop", instances=["b"])
    assert [place.split()[0] for place in team.places()] == ["c", "c"]
    # It deletes nothing that lives.
    team.run("reset", "failed", confirm="orders")
    team.run("operate", action="stop")
    assert team.running() == {}

    # As a person deletes a setting: found, named, repaired.
    team.run("operate")
    team.admin.alter_setting("orders-state-changelog", "cleanup.policy", "delete")
    team.run("operate", "failed")
    team.run("operate", action="repair_topics")
    team.run("operate")

    states = team.run("reset")
    assert states["delete_topics"] == "skipped"
    assert "orders-assignment" in team.admin.names()
    for name in ("a", "b", "c"):
        team.stores_of(name).mkdir(parents=True)
    team.run("reset", "failed", confirm="order")
    team.run("reset", confirm="orders")
    assert {name for name in team.admin.names() if name.startswith("orders-")} == {"orders-history"}
    assert not any(team.stores_of(name).exists() for name in ("a", "b", "c"))
