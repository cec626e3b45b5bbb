"""A whole Airflow deploys by connections with passwords, and is asked for all that it shows: none is among it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.control.application.rights import Role
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.ports import free_ports
from tests.acceptance.airflow_client import UserClient
from tests.dags.real_airflow import Home, end_of_run, running
from tests.integration.guarded_broker import GuardedBroker
from tests.secret_scan import arguments_with, files_with, holds
from tests.spark_submit_stub import spark_submit_stub

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("airflow")]

DEPLOY, OPERATE = "orders_deploy", "orders_operate"
FAKE_INSTANCE = Path(__file__).parents[1] / "integration" / "airflow" / "fake_instance.py"
FILE = """
from airflow_provider import Instance, stream_dags

stream_dags(
    "orders",
    job="../fake_instance.py",
    source_topics=["orders"],
    output_topics=["totals"],
    instances=[Instance("a")],
    num_standby_replicas=0,
    kafka_conn_id="kafka_of_airflow",
    instance_kafka_conn_id="kafka_of_orders",
    state_dir={state_dir!r},
    run_dir={run_dir!r},
    conf={{"spark.jars": "none.jar"}},
    monitor_schedule=None,
)
"""


def described(connection: KafkaConnection) -> dict[str, Any]:
    """As the API takes it."""
    host, _, port = connection.bootstrap_servers.partition(":")
    extra = {"security_protocol": connection.security_protocol, "sasl_mechanism": connection.sasl_mechanism}
    return {
        "conn_type": "kafkastreams",
        "host": host,
        "port": int(port),
        "login": connection.sasl_username,
        "password": connection.sasl_password,
        "extra": json.dumps(extra),
    }


class Asker(UserClient):
    """Asks for all that can be read of a run."""

    def keep(self, connection_id: str, connection: Mapping[str, Any]) -> None:
        """Store a connection in Airflow's own database."""
        self._call("POST", "/api/v2/connections", {"connection_id": connection_id, **connection}, exists=409)

    def answers(self, dag_id: str, run_id: str) -> dict[str, str]:
        """By path, what is answered."""
        run = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"
        paths = ["/api/v2/connections", f"/api/v2/dags/{dag_id}/dagRuns", run, f"{run}/taskInstances?limit=100"]
        paths += [f"/api/v2/dags/{dag_id}/details", f"/api/v2/dagSources/{dag_id}", "/api/v2/eventLogs?limit=1000"]
        for task in self.tasks(dag_id, run_id):
            at = f"{run}/taskInstances/{task['task_id']}"
            # Those of a mapped task have the index, which is -1 elsewhere.
            paths.append(f"{at}/{task['map_index']}")
            entries = f"{at}/xcomEntries?map_index={task['map_index']}"
            paths.append(entries)
            for entry in self._call("GET", entries)["xcom_entries"]:
                paths.append(f"{at}/xcomEntries/{entry['key']}?map_index={task['map_index']}&deserialize=false")
            if task["try_number"] and task["state"] != "skipped":
                paths.append(f"{at}/logs/{task['try_number']}?map_index={task['map_index']}&full_content=true")
        return {path: json.dumps(self._call("GET", path), ensure_ascii=False) for path in paths}


@dataclass(frozen=True)
class Stage:
    """A running Airflow that knows two connections with passwords.

    Args:
        client: a person's.
        folder: all that it and its instances keep.
        passwords: of Airflow's connection and of the instance's.
        connection: where every right is had.
    """

    client: Asker
    folder: Path
    passwords: tuple[str, str]
    connection: KafkaConnection


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    (port,) = free_ports(1)
    airflow, logs, dags = tmp_path / "whole" / "airflow", tmp_path / "whole" / "logs", tmp_path / "whole" / "dags"
    dags.mkdir(parents=True)
    (tmp_path / "whole" / "fake_instance.py").write_text(FAKE_INSTANCE.read_text())
    with GuardedBroker.running(tmp_path / "kafka") as guarded, spark_submit_stub(tmp_path, monkeypatch) as run_dir:
        state_dir = tmp_path / "whole" / "state"
        (dags / "orders_dags.py").write_text(FILE.format(state_dir=str(state_dir), run_dir=str(run_dir)))
        TopicAdmin(guarded.as_admin).ensure([TopicSpec(name="orders", partitions=2)])
        guarded.grant("orders", Role.AIRFLOW, source="orders", sink="totals")
        guarded.grant("orders", Role.INSTANCE, source="orders", sink="totals", user=guarded.another)
        home = Home(airflow, dags, port, guarded.bootstrap_servers, "local[1]")
        with running(home, logs, [DEPLOY, OPERATE]):
            client = Asker(home.address, patience_s=180.0)
            client.keep("kafka_of_airflow", described(guarded.user))
            client.keep("kafka_of_orders", described(guarded.another))
            passwords = (str(guarded.user.sasl_password), str(guarded.another.sasl_password))
            yield Stage(client, tmp_path, passwords, guarded.as_admin)


def test_passwords_are_in_no_answer_of_airflow_and_in_no_file_but_the_instances_own(stage: Stage) -> None:
    stage.client.trigger(DEPLOY, "deploy", {"start_timeout_s": 480})
    assert end_of_run(stage.client, DEPLOY, "deploy", 900) == "success"

    with ControlReader(stage.connection, "orders") as reader:
        assert reader.read_to_end().statuses["a"].state is InstanceState.RUNNING
    answers = stage.client.answers(DEPLOY, "deploy")
    shown = "\n".join(answers)
    for part in ("xcomEntries/", "logs/", "/connections"):
        assert part in shown, "it was asked for"
    assert '"rendered_fields"' in "".join(answers.values())
    assert "kafka_of_orders" in "".join(answers.values())
    assert [path for path, answer in answers.items() if holds(answer, stage.passwords)] == []
    assert arguments_with(stage.passwords) == []
    # The broker's own files know its users; Airflow's database holds connections encrypted.
    kafka, (settings,) = stage.folder / "kafka", list(stage.folder.rglob("instance.json"))
    found = [file for file in files_with(stage.passwords, stage.folder) if kafka not in file.parents]
    assert found == [settings]

    stage.client.trigger(OPERATE, "stop", {"action": "stop", "instances": ["a"]})
    assert end_of_run(stage.client, OPERATE, "stop", 900) == "success"

    answers = stage.client.answers(OPERATE, "stop")
    assert [path for path, answer in answers.items() if holds(answer, stage.passwords)] == []
    assert [file for file in files_with(stage.passwords, stage.folder) if kafka not in file.parents] == []
