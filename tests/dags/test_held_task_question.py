"""A real Airflow and a real job: a person is asked what becomes of a held task, answers, and so it is done."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.ports import free_ports
from airflow_provider.operators.held_task_question import LEAVE, REPLAY
from tests.acceptance.airflow_client import UserClient
from tests.brokers import settings_of_broker
from tests.dags.real_airflow import Home, Service, end_of_run, running
from tests.instances import end_instances
from tests.integration.streaming.committed import records_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("airflow")]

DEPLOY, REPAIR, BOUNDED = "orders_deploy", "orders_repair", "ask_for_three_seconds"
ASK, LOST = "ask_about_held_tasks", ("scheduler", "triggerer")

FILE = """
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG
from airflow_provider import Callbacks, Instance, stream_dags
from airflow_provider.operators import AskAboutHeldTasksOperator

FOLDER = Path(__file__).parents[1]
OWNER = {"retries": 3, "retry_delay": timedelta(seconds=1)}


def tell(context):
    with (FOLDER / "told").open("a") as file:
        print(context["run_id"], file=file)
    raise ConnectionError("the chat does not answer")


stream_dags(
    "orders",
    job="../job.py",
    source_topics=["orders"],
    output_topics=["totals"],
    instances=[Instance("a")],
    num_standby_replicas=0,
    instance_timeout_s=60,
    ask_on_hold=True,
    callbacks=Callbacks(on_hold=tell),
    state_dir=str(FOLDER / "state"),
    run_dir=str(FOLDER / "run"),
    conf={"spark.driver.memory": "512m", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"},
    monitor_schedule=None,
    default_args=OWNER,
)

with DAG("ask_for_three_seconds", default_args=OWNER):
    AskAboutHeldTasksOperator(
        task_id="ask_about_held_tasks", application_id="orders", response_timeout=timedelta(seconds=3)
    )
"""
JOB = """
from pathlib import Path

from airflow_provider.streaming import StatefulJob, run, stream


def total(account, rows, state):
    if not Path(__file__).with_name("prices").exists():
        raise LookupError("there is no price list")
    sum_ = (state.get() or 0) + sum(row["amount"] for row in rows)
    state.update(sum_)
    yield {"total": sum_}


if __name__ == "__main__":
    run(
        StatefulJob(
            "orders",
            stream("orders", schema="account STRING, amount BIGINT")
            .group_by("account", trust_partitioning=True)
            .process(total, columns=["amount"], name="state")
            .sink("totals"),
        )
    )
"""


@dataclasses.dataclass
class Stage:
    """A running application of one instance and one task, and an Airflow that watches it.

    Args:
        service: its parts.
        client: a person's.
        connection: of the broker.
        prices: without this file the job processes nothing.
        told: a line for each call of the owner's callback.
    """

    service: Service
    client: UserClient
    connection: KafkaConnection
    prices: Path
    told: Path

    def order(self, amount: int) -> None:
        producer = Producer({"bootstrap.servers": self.connection.bootstrap_servers})
        producer.produce("orders", json.dumps({"account": "ann", "amount": amount}), "ann")
        assert producer.flush(30) == 0

    def wait_for_totals(self, *expected: int) -> None:
        def totals() -> list[int]:
            found = records_of(self.connection.bootstrap_servers, "totals")
            return [json.loads(record.value or b"{}")["total"] for record in found]

        wait_until(lambda: totals() == list(expected), 180, f"the totals {expected}", poll_s=0.5)

    def hold_the_task(self, amount: int) -> dict[str, Any]:
        """Have the job meet an order that it cannot process; the question about it."""
        self.prices.unlink()
        self.order(amount)
        question = self.open_question(REPAIR)
        assert self.state_of_task() is TaskState.FAILED
        return question

    def state_of_task(self) -> TaskState | None:
        with ControlReader(self.connection, "orders") as reader:
            status = reader.read_to_end().statuses["a"].task(TaskId(0, 0))
        return None if status is None else status.state

    def open_question(self, dag_id: str) -> dict[str, Any]:
        (question,) = wait_until(lambda: self.open_questions(dag_id), 300, f"a question of {dag_id}", poll_s=0.5)
        return question

    def open_questions(self, dag_id: str) -> list[dict[str, Any]]:
        return [
            asked
            for asked in self.client.questions(dag_id)
            if not asked["response_received"] and asked["task_instance"]["state"] == "awaiting_input"
        ]

    def outcome(self, question: dict[str, Any]) -> tuple[str, dict[str, tuple[str, int]]]:
        """How the run of a question ended, and of each of its tasks the state and the number of tries."""
        dag_id, run_id = question["task_instance"]["dag_id"], question["task_instance"]["dag_run_id"]
        ended = end_of_run(self.client, dag_id, run_id, 420)
        tasks = self.client.tasks(dag_id, run_id)
        return ended, {task["task_id"]: (task["state"], task["try_number"]) for task in tasks}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    port, *_ = free_ports(1)
    dags, prices, told = folder / "dags", folder / "prices", folder / "told"
    dags.mkdir()
    (dags / "orders_dags.py").write_text(FILE)
    (folder / "job.py").write_text(JOB)
    prices.touch()
    told.touch()
    with ExitStack() as ends:
        broker = ends.enter_context(EmbeddedBroker(settings_of_broker(folder / "kafka")))
        ends.callback(end_instances, folder / "run")
        connection = KafkaConnection(broker.bootstrap_servers)
        TopicAdmin(connection).ensure([TopicSpec(name="orders", partitions=1)])
        home = Home(folder / "airflow", dags, port, broker.bootstrap_servers, "local[1]")
        service, client = ends.enter_context(running(home, folder / "logs", [DEPLOY, REPAIR, BOUNDED]))
        client.trigger(DEPLOY, "deploy", {"start_timeout_s": 480})
        assert end_of_run(client, DEPLOY, "deploy", 600) == "success"
        yield Stage(service, client, connection, prices, told)


def test_question_outlives_scheduler_and_triggerer_and_a_replay_has_the_task_go_on(stage: Stage) -> None:
    stage.order(1)
    stage.wait_for_totals(1)

    question = stage.hold_the_task(2)

    assert question["options"] == [REPLAY, LEAVE]
    assert question["params"] == {}
    assert "**0_0** on a: " in question["body"]
    assert "there is no price list" in question["body"]

    for part in LOST:
        stage.service.kill(part)
    wait_until(lambda: set(stage.client.unhealthy()) == set(LOST), 120, "their loss to be noticed", poll_s=0.5)
    for part in LOST:
        stage.service.start_again(part)
    wait_until(lambda: not stage.client.unhealthy(), 300, "them to be healthy again", poll_s=0.5)
    assert stage.open_question(REPAIR)["task_instance"]["id"] == question["task_instance"]["id"]

    stage.prices.touch()
    stage.client.answer(question, REPLAY)

    ended, tasks = stage.outcome(question)
    assert ended == "success", tasks
    assert tasks[ASK] == ("success", 1)
    assert tasks["replay_held_tasks"][0] == "success"
    assert stage.state_of_task() is TaskState.RUNNING
    stage.wait_for_totals(1, 3)
    assert len(stage.client.questions(REPAIR)) == len(stage.told.read_text().splitlines()) == 1


def test_task_stays_held_where_nobody_answers_in_time_and_where_the_person_leaves_it(stage: Stage) -> None:
    question = stage.hold_the_task(4)
    stage.client.trigger(BOUNDED, "unanswered", {})
    unanswered = wait_until(lambda: stage.client.questions(BOUNDED), 180, "the question with a bound", poll_s=0.5)[0]

    ended, tasks = stage.outcome(unanswered)

    # It is not asked again, whatever the owner says of tries.
    assert (ended, tasks[ASK]) == ("failed", ("failed", 1))
    assert stage.state_of_task() is TaskState.FAILED
    # That of the repair has no end.
    assert stage.open_question(REPAIR)["task_instance"]["id"] == question["task_instance"]["id"]

    stage.client.answer(question, LEAVE)

    ended, tasks = stage.outcome(question)
    assert (ended, tasks[ASK]) == ("failed", ("success", 1))
    assert tasks["replay_held_tasks"][0] == "skipped"
    assert tasks["wait_until_warm"][0] == "failed"
    assert stage.state_of_task() is TaskState.FAILED
    assert not stage.open_questions(REPAIR)
