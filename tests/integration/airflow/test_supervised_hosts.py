"""Three supervised instances with folders and hosts of their own, on real Spark, under load: one host is lost whole."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.control.hosts import tasks_on_one_host
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.view import ControlView
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from tests.brokers import settings_of_broker
from tests.chaos.evidence import gather
from tests.chaos.judge import judge
from tests.chaos.load import Load
from tests.integration.airflow.running import caused_by, incident_of, run
from tests.plain_supervisor import PlainSupervisor
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
JOB = ROOT / "tests" / "chaos" / "ledger_job.py"
APPLICATION = "ledger"
NAMES = ("a", "b", "c")
TASKS = 3
START_S = 300.0
OF: dict[str, Any] = {"application_id": APPLICATION, "start_timeout_s": START_S}


def supervised(folder: Path, name: str, servers: str) -> PlainSupervisor:
    host = folder / name
    host.mkdir()
    return PlainSupervisor(
        APPLICATION,
        name,
        JOB,
        host / "run",
        *("--bootstrap-servers", servers, "--state-dir", str(host / "state"), "--master", "local[1]"),
        *("--conf", "spark.driver.memory=512m", "--start-timeout", str(START_S), "--hang-timeout", str(START_S)),
        environment={"STATEFUL_STREAMS_HOST": f"host-{name}", "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        log_file=host / "supervised.log",
    )


def test_host_that_is_lost_whole_comes_back_and_nothing_is_lost_or_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider.operators.changelog_topics import CreateChangelogTopicsOperator
    from airflow_provider.operators.failover import FailOverOperator
    from airflow_provider.operators.failover_report import ReportFailOverOperator
    from airflow_provider.operators.instance_deployment import DeployInstanceOperator
    from airflow_provider.operators.task_assignment import AssignTasksOperator
    from airflow_provider.sensors.standby_lag import StandbyLagSensor

    with ExitStack() as held:
        broker = EmbeddedBroker(settings_of_broker(tmp_path / "kafka"))
        broker.start(START_S)
        held.callback(broker.kill)
        connection = KafkaConnection(broker.bootstrap_servers)
        extra = {"bootstrap_servers": broker.bootstrap_servers}
        described = {"conn_type": "kafkastreams", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_STREAMS_DEFAULT", json.dumps(described))
        topics = [
            TopicSpec(name=f"{APPLICATION}-{name}", partitions=TASKS) for name in ("input", "output", "dead-letters")
        ]
        TopicAdmin(connection).ensure(topics)

        def view() -> ControlView:
            with ControlReader(connection, APPLICATION) as reader:
                return reader.read_to_end()

        # Deployed: Airflow makes the topics, waits for the supervisors, and assigns.
        run(CreateChangelogTopicsOperator(task_id="topics", source_topics=f"{APPLICATION}-input", **OF))
        kept = {name: supervised(tmp_path, name, broker.bootstrap_servers) for name in NAMES}
        for supervisor in kept.values():
            held.callback(supervisor.stop)
            supervisor.start()
        for name in NAMES:
            wait: dict[str, Any] = {"instance": name, "application": str(JOB), "placement": "supervised", **OF}
            run(DeployInstanceOperator(task_id=f"deploy_{name}", **wait))
        assigned = run(AssignTasksOperator(task_id="assign", **OF))
        run(StandbyLagSensor(task_id="warm", timeout_s=START_S, **OF))
        assert assigned["on_one_host"] == {}
        whole = view()
        assert whole.assignment is not None
        assert {status.process.host for status in whole.statuses.values()} == {"host-a", "host-b", "host-c"}
        assert not tasks_on_one_host(whole.assignment.tasks, whole.statuses)

        load = Load(broker.bootstrap_servers, f"{APPLICATION}-input", TASKS, 300, 20)
        held.callback(load.stop)
        load.start()
        wait_until(lambda: _committed(view()), START_S, "every task to commit")

        # Lost: a host with all of its processes. The standbys take over.
        victim = whole.assignment.tasks[min(whole.assignment.tasks)].active
        assert victim is not None
        kept[victim].kill_whole()
        (answer,) = run(FailOverOperator(task_id="fail_over", **OF), caused_by(incident_of(APPLICATION)))
        assert answer["replace"]
        moved = view()
        assert moved.assignment is not None
        assert not moved.assignment.active_on(victim)

        # Back: as the repair DAG of no application in particular does it, which knows it is supervised.
        before = view().statuses[victim].incarnation
        kept[victim].bring_back()
        handle = run(DeployInstanceOperator(task_id="replace", instance=victim, **OF))
        assert handle["incarnation"] > before
        run(AssignTasksOperator(task_id="assign_standbys", **OF))
        run(StandbyLagSensor(task_id="warm_again", timeout_s=START_S, **OF))
        run(ReportFailOverOperator(task_id="report", incident_id=answer["incident_id"], **OF))
        run(AssignTasksOperator(task_id="balance", balance=True, timeout_s=START_S, **OF))
        after = view()
        assert after.assignment is not None
        assert after.assignment.active_on(victim), "the load has not returned"
        assert not tasks_on_one_host(after.assignment.tasks, after.statuses)
        assert not after.unresolved_incidents

        load.stop()
        wait_until(lambda: _beyond(view(), load.committed), START_S, "every task to have processed all input")
        for supervisor in kept.values():
            supervisor.stop()
        assert {supervisor.statuses[-1] for supervisor in kept.values()} == {ExitStatus.FINE}
        assert kept[victim].statuses == [-9, ExitStatus.FINE]

        folders = {name: tmp_path / name / "state" for name in NAMES}
        verdict = judge(gather(broker.bootstrap_servers, APPLICATION, folders))
        assert verdict.right, "\n".join(verdict.lines())


def _offsets(view: ControlView) -> dict[int, int]:
    """By partition, where each active goes on."""
    if view.assignment is None:
        return {}
    found = {}
    for task_id, given in view.assignment.tasks.items():
        owner = view.statuses.get(given.active or "")
        task = owner.task(task_id) if owner else None
        if task is not None and task.source_offset is not None:
            found[task_id.partition] = task.source_offset
    return found


def _committed(view: ControlView) -> bool:
    return len(_offsets(view)) == TASKS


def _beyond(view: ControlView, marks: dict[int, int]) -> bool:
    offsets = _offsets(view)
    return all(offsets.get(partition, 0) >= mark for partition, mark in marks.items())
