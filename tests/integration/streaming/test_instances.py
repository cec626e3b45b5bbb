"""Two instances of one application on a real Spark, two slots each; what befalls them, and that nothing is lost.

The instances are started once, because each costs a JVM. Every test finds all tasks settled and leaves them so; the
last tests end the instances.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from airflow_provider.control.command import CommandKind
from airflow_provider.control.status import InstanceState, TaskState
from airflow_provider.state.store import Store
from tests.integration.streaming.accounts import CHANGELOG, ORDERS, Accounts
from tests.integration.streaming.committed import commits, newest_by_key, records_of

LIVE = (0, 1, 2, 3)
BAD = 4
"""The partition that gets the record that nobody can read."""
DEAF = 5
"""The partition that gets the record at which the job's function never returns."""

SHARED = ("i1 i2", "i2 i1", "i1 i2", "i2 i1", "i1 i2", "i1 i2")
CALL_TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def accounts(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounts]:
    accounts = Accounts(bootstrap_servers, tmp_path_factory.mktemp("accounts"), num_tasks=6, seed=31)
    try:
        for name in ("i1", "i2"):
            accounts.launch(name, call_timeout_s=CALL_TIMEOUT_S)
        accounts.assign(*SHARED)
        accounts.orders.write(300, LIVE)
        accounts.wait(accounts.settled, "all tasks to settle", deadline_s=180)
        yield accounts
    finally:
        accounts.close()


def test_orders_count_once_whatever_instance_and_slot_they_meet(accounts: Accounts) -> None:
    accounts.orders.write(1_500, LIVE)

    accounts.check()

    changelog = records_of(accounts.connection.bootstrap_servers, CHANGELOG)
    assert [commits(changelog, task)[-1]["instance"] for task in LIVE] == ["i1", "i2", "i1", "i2"]


def test_paused_instance_commits_nothing_until_it_resumes(accounts: Accounts) -> None:
    servers = accounts.connection.bootstrap_servers
    accounts.check()
    accounts.command(CommandKind.PAUSE, "i1")
    before = [len(commits(records_of(servers, CHANGELOG), task)) for task in LIVE]
    accounts.orders.write(1_500, LIVE)

    def others_went_on() -> bool:
        changelog = records_of(servers, CHANGELOG)
        return all(len(commits(changelog, task)) > before[task] + 1 for task in (1, 3))

    accounts.wait(others_went_on, "the other instance to go on, for several micro-batches")
    changelog = records_of(servers, CHANGELOG)
    assert [len(commits(changelog, task)) for task in (0, 2)] == [before[0], before[2]]

    accounts.command(CommandKind.RESUME, "i1")
    accounts.check()


def test_replayed_active_and_standby_stores_come_back_whole(accounts: Accounts) -> None:
    accounts.check()
    accounts.command(CommandKind.REPLAY, "i1", tasks=(0, 1))
    aside = accounts.directory("i1").path / "quarantine"
    accounts.wait(lambda: aside.exists() and len(list(aside.iterdir())) == 2, "both stores to be moved aside")
    accounts.orders.write(300, LIVE)
    accounts.wait(accounts.settled, "the tasks to settle again")

    accounts.check()
    assert sorted(folder.name.partition("-task-")[2] for folder in aside.iterdir()) == ["0-state", "1-state"]


def test_killed_worker_in_the_middle_of_the_stream_loses_and_doubles_nothing(accounts: Accounts) -> None:
    accounts.check()
    done = accounts.orders.number
    accounts.orders.write(4_000, LIVE)
    accounts.wait(lambda: accounts.processed() > done + 400, "some orders to be processed")

    accounts.worker_of("i1", 0).send_signal(signal.SIGKILL)

    assert accounts.processed() < accounts.orders.number, "the stream was over too soon"
    accounts.check()
    accounts.wait(accounts.settled, "the tasks to settle again")


def test_instance_that_hung_until_its_tasks_were_promoted_writes_nothing_and_follows(accounts: Accounts) -> None:
    accounts.check()
    done = accounts.orders.number
    accounts.orders.write(2_000, LIVE)
    accounts.wait(lambda: accounts.processed() > done + 400, "some orders to be processed")

    accounts.signal("i1", signal.SIGSTOP)
    try:
        assert accounts.processed() < accounts.orders.number, "the stream was over too soon"
        generation = accounts.assign("i2", "i2", "i2", "i2", "i2", "i2").generation
        accounts.wait(accounts.settled, "the other instance to run all tasks")
        accounts.orders.write(300, LIVE)
    finally:
        accounts.signal("i1", signal.SIGCONT)
    accounts.assign(*["i2 i1"] * 6)

    accounts.check()
    accounts.wait(accounts.settled, "the instance that hung to follow")
    changelog = records_of(accounts.connection.bootstrap_servers, CHANGELOG)
    for task in LIVE:
        owners = [(record["generation"], record["instance"]) for record in commits(changelog, task)]
        assert owners == sorted(owners), "somebody committed after its successor"
        assert owners[-1][1] == "i2"
    for task in (0, 2):
        owners = [(record["generation"], record["instance"]) for record in commits(changelog, task)]
        assert {name for since, name in owners if since >= generation} == {"i2"}
    accounts.assign(*SHARED)
    accounts.wait(accounts.settled, "the tasks to go back")


def test_undecodable_record_fails_its_task_and_no_other(accounts: Accounts) -> None:
    accounts.check()
    offset = accounts.orders.write_raw(BAD, b"the key", b"{no json")
    accounts.orders.write(300, LIVE)

    def told() -> bool:
        task = accounts.status("i1").task(BAD)
        return task is not None and task.state is TaskState.FAILED

    accounts.wait(told, "the task to be told as failed")
    task = accounts.status("i1").task(BAD)
    assert task is not None
    assert task.error_kind == "DecodeError"
    assert f"{ORDERS}[{BAD}] at offset {offset}, key 'the key'" in str(task.error)
    accounts.check()
    accounts.wait(lambda: accounts.settled(without=[BAD]), "the other tasks to stay settled")


def test_function_that_never_returns_to_python_fails_its_task_and_no_other(accounts: Accounts) -> None:
    accounts.check()
    accounts.orders.write_raw(DEAF, b"deaf", b'{"account": "deaf", "amount": 1}')
    accounts.orders.write(300, LIVE)

    def told() -> bool:
        task = accounts.status("i1").task(DEAF)
        return task is not None and task.state is TaskState.FAILED

    accounts.wait(told, "the task to be told as failed", deadline_s=CALL_TIMEOUT_S + 60)
    task = accounts.status("i1").task(DEAF)
    assert task is not None
    assert task.error_kind == "WorkerError"
    assert "took longer than call_timeout_s (20 s)" in str(task.error)
    accounts.check()
    accounts.wait(lambda: accounts.settled(without=[BAD, DEAF]), "the other tasks to settle")


def test_killed_instance_is_told_within_a_second_and_its_standbys_go_on(accounts: Accounts) -> None:
    accounts.check()
    done = accounts.orders.number
    accounts.orders.write(3_000, LIVE)
    accounts.wait(lambda: accounts.processed() > done + 400, "some orders to be processed")

    killed_at_ms = time.time_ns() // 1_000_000
    accounts.signal("i2", signal.SIGKILL)
    ended = accounts.wait_for_state("i2", InstanceState.ENDED)
    accounts.assign("i1", "i1", "i1", "i1", "-", "-")

    assert ended.exit_code
    assert accounts.view.heard_at_ms["i2"] - killed_at_ms < 1_500
    accounts.check()
    accounts.wait(lambda: accounts.settled(without=[BAD, DEAF]), "the tasks to settle")
    changelog = records_of(accounts.connection.bootstrap_servers, CHANGELOG)
    assert {commits(changelog, task)[-1]["instance"] for task in LIVE} == {"i1"}


def test_stopped_instance_says_goodbye_in_time_and_leaves_whole_stores(accounts: Accounts) -> None:
    accounts.orders.write(1_000, LIVE)
    began = time.monotonic()
    accounts.command(CommandKind.STOP, "i1")

    accounts.wait_for_state("i1", InstanceState.STOPPED)
    assert time.monotonic() - began < 10
    accounts.wait(lambda: not accounts.launcher_lives("i1"), "the launcher to end")

    assert accounts.status("i1").state is InstanceState.STOPPED, "its exit status was not 0"
    assert not [process for process in accounts.processes("i1") if process.is_running()]
    changelog = records_of(accounts.connection.bootstrap_servers, CHANGELOG)
    for task in LIVE:
        store = Store(accounts.directory("i1").store(task, "state"))
        assert dict(store.items()) == newest_by_key(changelog, task)
        store.close()
    assert not (Path(accounts.folder) / "run-i1" / "checkpoint").exists()


def test_changed_cleanup_policy_of_a_living_changelog_ends_its_instance_with_a_typed_error(accounts: Accounts) -> None:
    accounts.launch("i1", verify_interval_s=0.5)
    accounts.wait_for_state("i1", InstanceState.RUNNING, deadline_s=120)
    admin = AdminClient({"bootstrap.servers": accounts.connection.bootstrap_servers})
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    changelog = ConfigResource(ResourceType.TOPIC, CHANGELOG, incremental_configs=[entry])

    admin.incremental_alter_configs([changelog])[changelog].result(30)

    ended = accounts.wait_for_state("i1", InstanceState.ENDED)
    assert str(ended.error).startswith("TopicMismatchError: ")
    assert "cleanup.policy=delete, compact is needed" in str(ended.error)
    accounts.wait(lambda: not accounts.launcher_lives("i1"), "the launcher to end")
