"""What is done to the source of a running instance, on a real Spark: what is lost is named, and nothing else stops."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.records.status import InstanceState, TaskState, TaskStatus
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec
from airflow_provider.kit.broker import EmbeddedBroker
from tests.brokers import settings_of_broker
from tests.integration.streaming.accounts import Accounts

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

JOB = Path(__file__).parent / "counting_job.py"
TWICE = Path(__file__).parent / "counting_twice_job.py"
DEADLINE_S = 240.0
"""Of one step, on a machine that runs other tests of Spark as well."""


@pytest.fixture
def accounts(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Accounts]:
    accounts = Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=2, seed=6)
    yield accounts
    accounts.close()


def start(accounts: Accounts, on_data_loss: str = "fail") -> None:
    """One slot: both tasks are read by one query."""
    accounts.job = (str(JOB), accounts.id, on_data_loss)
    accounts.launch("i1", "local[1]")
    accounts.wait(lambda: accounts.runs("i1"), "i1 to run", DEADLINE_S)


def write(accounts: Accounts, number: int) -> None:
    """That many orders of one account into each partition, at offsets without gaps."""
    producer = Producer({"bootstrap.servers": accounts.connection.bootstrap_servers})
    for partition in range(accounts.num_tasks):
        for _ in range(number):
            producer.produce(accounts.orders.topic, b'{"account": "ann", "amount": 1}', b"ann", partition=partition)
    assert producer.flush(60) == 0


def delete_before(accounts: Accounts, partition: int, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": accounts.connection.bootstrap_servers})
    (deleted,) = admin.delete_records([TopicPartition(accounts.orders.topic, partition, offset)]).values()
    deleted.result(30)


def told(accounts: Accounts) -> list[TaskStatus]:
    return sorted(accounts.status("i1").tasks, key=lambda status: status.task)


def read_up_to(accounts: Accounts, *offsets: int) -> bool:
    return [status.source_offset for status in told(accounts)] == list(offsets)


def lose_input(accounts: Accounts, on_data_loss: str) -> None:
    """Both tasks read ten records of twenty; the next five of partition 0 are deleted while neither is owned."""
    write(accounts, 10)
    start(accounts, on_data_loss)
    accounts.assign("i1", "i1")
    accounts.wait(lambda: read_up_to(accounts, 10, 10), "the first records to be counted", DEADLINE_S)
    accounts.assign("-", "-")
    accounts.wait(lambda: accounts.status("i1").tasks == (), "the tasks to be given away", DEADLINE_S)
    write(accounts, 10)
    delete_before(accounts, 0, 15)
    accounts.assign("i1", "i1")


def test_lost_input_fails_its_task_alone_and_names_the_range(accounts: Accounts) -> None:
    lose_input(accounts, "fail")

    def settled() -> bool:
        tasks = told(accounts)
        if len(tasks) < 2 or tasks[0].state is not TaskState.FAILED:
            return False
        # The query that it shared with the other ended, which is reported until a query of its own gets on.
        return tasks[1].source_offset == 20 and tasks[1].error is None

    accounts.wait(settled, "one task to fail and the other to go on", DEADLINE_S)
    lost, other = told(accounts)
    assert lost.error_kind == "InputLostError"
    assert f"{accounts.orders.topic}[0]: the offsets 10 to 14 (5 records at the most)" in str(lost.error)
    assert (lost.source_offset, lost.lost_records) == (10, 0)
    assert (other.state, other.error, other.lost_records) == (TaskState.RUNNING, None, 0)


def test_lost_input_is_named_first_by_every_task_that_reads_it(accounts: Accounts) -> None:
    write(accounts, 20)
    sums = [changelog_spec(accounts.id, "sums", 2), TopicSpec(name=f"{accounts.id}-sums", partitions=2)]
    TopicAdmin(accounts.connection).ensure(sums)
    accounts.job = (str(TWICE), accounts.id)
    accounts.launch("i1", "local[1]")
    accounts.wait(lambda: accounts.runs("i1"), "i1 to run", DEADLINE_S)
    tasks = [TaskId(stage, partition) for stage in (0, 1) for partition in (0, 1)]
    accounts.give(dict.fromkeys(tasks, "i1"))
    accounts.wait(lambda: read_up_to(accounts, *([20] * 4)), "the records to be counted", DEADLINE_S)
    accounts.command(CommandKind.PAUSE, "i1")
    write(accounts, 20)
    delete_before(accounts, 0, 40)
    accounts.command(CommandKind.RESUME, "i1")
    seen: list[tuple[str, str, str]] = []

    def failed() -> bool:
        for task in told(accounts):
            if task.error is not None and (said := (str(task.task), str(task.error_kind), task.error)) not in seen:
                seen.append(said)
                print(said)
        return [task.state for task in told(accounts)].count(TaskState.FAILED) == 2

    accounts.wait(failed, "both tasks of the partition to fail", DEADLINE_S)
    assert {kind for _, kind, _ in seen} == {"InputLostError"}
    assert {task for task, _, text in seen if "[0]: the offsets 20 to 39" in text} == {"0_0", "1_0"}


def test_job_that_goes_on_without_lost_input_counts_it_and_names_the_range(accounts: Accounts) -> None:
    lose_input(accounts, "continue")

    def without_an_error() -> bool:
        return read_up_to(accounts, 20, 20) and all(task.error is None for task in told(accounts))

    accounts.wait(without_an_error, "the rest to be counted", DEADLINE_S)
    lost, other = told(accounts)
    assert (lost.state, lost.error, lost.lost_records) == (TaskState.RUNNING, None, 5)
    assert (other.state, other.error, other.lost_records) == (TaskState.RUNNING, None, 0)
    source = accounts.orders.topic
    named = f"task 0_0 goes on at offset 15 of {source}[0]: 5 records at the most, from offset 10 on, were deleted"
    assert named in accounts.log("i1")


def test_source_that_is_deleted_under_a_query_ends_its_instance_and_is_named(accounts: Accounts) -> None:
    write(accounts, 10)
    start(accounts)
    accounts.assign("i1", "i1")
    accounts.wait(lambda: read_up_to(accounts, 10, 10), "the records to be counted", DEADLINE_S)
    seen: list[TaskStatus] = []

    def ended() -> bool:
        status = accounts.status("i1")
        seen.extend(status.tasks)
        return status.state is InstanceState.ENDED

    admin = AdminClient({"bootstrap.servers": accounts.connection.bootstrap_servers})
    admin.delete_topics([accounts.orders.topic])[accounts.orders.topic].result(30)
    accounts.wait(ended, "the instance to end", DEADLINE_S)

    status = accounts.status("i1")
    assert status.error_kind == "TopicMissingError"
    assert accounts.orders.topic in str(status.error)
    assert {task.task for task in seen} == {TaskId(0, 0), TaskId(0, 1)}
    assert {task.state for task in seen} == {TaskState.RUNNING}


def write_one_by_one(accounts: Accounts, number: int) -> None:
    """Into each partition, each record in a batch of its own, so that the log can be cut behind any."""
    producer = Producer({"bootstrap.servers": accounts.connection.bootstrap_servers, "linger.ms": 0})
    for _ in range(number):
        for partition in range(accounts.num_tasks):
            producer.produce(accounts.orders.topic, b'{"account": "ann", "amount": 1}', b"ann", partition=partition)
        assert producer.flush(60) == 0


def cut(broker: EmbeddedBroker, topic: str, end: int) -> None:
    """The partitions of a broker that is down end there, as after elections of replicas that were behind."""
    for log in broker.folder.data.rglob(f"{topic}-*/00000000000000000000.log"):
        raw, at = log.read_bytes(), 0
        while at < len(raw):
            base, length = struct.unpack_from(">qi", raw, at)
            if base >= end:
                break
            at += 12 + length
        log.write_bytes(raw[:at])
        for index in log.parent.iterdir():
            if index.suffix in (".index", ".timeindex", ".snapshot"):
                index.unlink()


def test_records_before_the_position_of_a_source_that_was_cut_are_not_skipped_in_silence(
    application_id: str, tmp_path: Path
) -> None:
    """Whether the task was owned then or is owned later, and whatever its job does about lost input."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(settings_of_broker(tmp_path / "kafka")))

        def application(on_data_loss: str, num_tasks: int) -> Accounts:
            folder = tmp_path / on_data_loss
            folder.mkdir()
            made = Accounts(broker.bootstrap_servers, f"{application_id}-{on_data_loss}", folder, num_tasks, seed=6)
            stack.callback(made.close)
            start(made, on_data_loss)
            made.assign(*["i1"] * num_tasks)
            made.wait(made.settled, "the tasks to run", DEADLINE_S)
            write_one_by_one(made, 100)
            made.wait(lambda: read_up_to(made, *[100] * num_tasks), "the records to be counted", DEADLINE_S)
            return made

        failing, going_on = application("fail", 2), application("continue", 1)
        failing.assign("i1", "-")
        failing.wait(lambda: len(told(failing)) == 1, "a task to be given away", DEADLINE_S)
        broker.kill()
        for accounts in (failing, going_on):
            cut(broker, accounts.orders.topic, 70)
        broker.start()

        def has_failed(*tasks: int) -> bool:
            found = told(failing)
            return [(one.task.partition, one.state) for one in found] == [(n, TaskState.FAILED) for n in tasks]

        failing.wait(lambda: has_failed(0), "the loss to be found", DEADLINE_S)
        failing.assign("i1", "i1")
        failing.wait(lambda: has_failed(0, 1), "the loss to be found by one that is owned since", DEADLINE_S)
        for task in told(failing):
            assert task.error_kind == "InputLostError"
            assert f"{failing.orders.topic}[{task.task.partition}] ends at offset 70" in str(task.error)
            assert "the offsets 70 to 99 now (30 records at the most) would be skipped" in str(task.error)

        going_on.wait(lambda: told(going_on)[0].lost_records == 30, "the loss to be counted", DEADLINE_S)
        write_one_by_one(going_on, 40)
        going_on.wait(lambda: read_up_to(going_on, 110), "the rest to be counted", DEADLINE_S)
        assert told(going_on)[0].lost_records == 30
