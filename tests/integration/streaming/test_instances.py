"""Two instances of one application on a real Spark, two slots each; what befalls them, and that nothing is lost.

The tests share an application, and each is given it whole: what the one before ended is started again, and after a
failure everything is made again.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.records.status import CertificateStatus, InstanceState, TaskState, TaskStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.state.store import Store
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.background import again_and_again
from tests.integration.streaming.committed import commits, ends_of, newest_by_key, records_of
from tests.integration.streaming.shared_accounts import (
    CALL_TIMEOUT_S,
    LIVE,
    SHARED,
    WITH_UI,
    SharedAccounts,
    assert_owners_in_order,
)

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

BAD = 4
"""The partition that gets the record that no one can read."""
DEAF = 5
"""The partition that gets the record at which the job's function never returns."""

ALONE = ("i1",) * 6


@pytest.fixture(scope="module", params=[False, True], ids=["spark-reads", "worker-reads"])
def shared(
    bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SharedAccounts]:
    shared = SharedAccounts(bootstrap_servers, tmp_path_factory, request.session, read_by_workers=request.param)
    yield shared
    shared.close()


@pytest.fixture
def alone(shared: SharedAccounts) -> Accounts:
    """One instance has all tasks."""
    return shared.lend(ALONE)


def failed_task(accounts: Accounts, number: int, deadline_s: float = 60.0) -> TaskStatus:
    """The task's status once it is reported as failed."""

    def look() -> TaskStatus | None:
        task = accounts.status("i1").task(TaskId(0, number))
        return task if task is not None and task.state is TaskState.FAILED else None

    accounts.wait(lambda: look() is not None, "the task to be reported as failed", deadline_s)
    task = look()
    assert task is not None
    return task


@contextmanager
def orders_flowing(accounts: Accounts) -> Iterator[None]:
    """Orders are written all the while, and the first of them are committed when the block begins."""

    def committed() -> int:
        servers = accounts.connection.bootstrap_servers
        return sum(ends_of(servers, accounts.totals, "read_committed").values())

    before = committed()
    with again_and_again(lambda: accounts.orders.write(60, LIVE), lambda: 0.1):
        accounts.wait(lambda: committed() > before, "some orders to be processed")
        yield


def test_orders_count_once_whatever_instance_and_slot_they_meet(accounts: Accounts) -> None:
    accounts.orders.write(1_500, LIVE)

    accounts.check()

    changelog = records_of(accounts.connection.bootstrap_servers, accounts.changelog)
    assert [commits(changelog, task)[-1]["instance"] for task in LIVE] == ["i1", "i2", "i1", "i2"]


def test_paused_instance_commits_nothing_until_it_resumes(accounts: Accounts) -> None:
    servers = accounts.connection.bootstrap_servers
    accounts.command(CommandKind.PAUSE, "i1")
    before = [len(commits(records_of(servers, accounts.changelog), task)) for task in LIVE]
    # More than one micro-batch for each task, which may have a query of its own.
    accounts.orders.write(3_000, LIVE)

    def others_went_on() -> bool:
        changelog = records_of(servers, accounts.changelog)
        return all(len(commits(changelog, task)) > before[task] + 1 for task in (1, 3))

    accounts.wait(others_went_on, "the other instance to go on, for several micro-batches")
    changelog = records_of(servers, accounts.changelog)
    assert [len(commits(changelog, task)) for task in (0, 2)] == [before[0], before[2]]

    accounts.command(CommandKind.RESUME, "i1")
    accounts.check()


def test_replayed_active_and_standby_stores_come_back_whole(accounts: Accounts) -> None:
    aside = accounts.directory("i1").path / "quarantine"
    before = set(aside.glob("*"))

    def moved() -> list[str]:
        return sorted(folder.name.split("-", 2)[2] for folder in set(aside.glob("*")) - before)

    accounts.command(CommandKind.REPLAY, "i1", tasks=(0, 1))
    accounts.wait(lambda: len(moved()) == 2, "both stores to be moved aside")
    accounts.orders.write(300, LIVE)
    accounts.wait(accounts.settled, "the tasks to settle again")

    accounts.check()
    assert moved() == ["0_0", "0_1"]


def test_standbys_are_compared_when_a_command_asks_for_it(accounts: Accounts) -> None:
    asked = accounts.command(CommandKind.CERTIFY, "i1", tasks=(1, 3))

    def certificates() -> list[CertificateStatus]:
        copies = [accounts.status("i1").task(TaskId(0, number)) for number in (1, 3)]
        return [CertificateStatus() if copy is None else copy.certificate for copy in copies]

    accounts.wait(lambda: {known.command for known in certificates()} == {asked}, "both to be compared")
    assert all(known.position is not None and not known.divergences for known in certificates())


def test_sparks_ui_is_where_the_status_says_that_it_is(accounts: Accounts) -> None:
    url = accounts.status(WITH_UI).process.ui_url
    assert url is not None
    with urlopen(url, timeout=20) as answer:
        assert b"Spark" in answer.read()
    assert accounts.status("i2").process.ui_url is None


def test_killed_worker_in_the_middle_of_the_stream_loses_and_doubles_nothing(accounts: Accounts) -> None:
    with orders_flowing(accounts):
        accounts.worker_of("i1", 0).send_signal(signal.SIGKILL)

    accounts.check()
    accounts.wait(accounts.settled, "the tasks to settle again")


def test_instance_that_hung_until_its_tasks_were_promoted_writes_nothing_and_follows(accounts: Accounts) -> None:
    try:
        with orders_flowing(accounts):
            accounts.signal("i1", signal.SIGSTOP)
        generation = accounts.assign("i2", "i2", "i2", "i2", "i2", "i2").generation
        accounts.wait(accounts.settled, "the other instance to run all tasks")
        accounts.orders.write(300, LIVE)
    finally:
        accounts.signal("i1", signal.SIGCONT)
    accounts.assign(*["i2 i1"] * 6)

    accounts.check()
    accounts.wait(accounts.settled, "the instance that hung to follow")
    owners = assert_owners_in_order(accounts)
    assert {of_task[-1][1] for of_task in owners.values()} == {"i2"}
    for task in (0, 2):
        assert {name for since, name in owners[task] if since >= generation} == {"i2"}
    accounts.assign(*SHARED)
    accounts.wait(accounts.settled, "the tasks to go back")


def test_tasks_that_move_to_and_fro_count_each_order_once(accounts: Accounts) -> None:
    """The query that brought their rows goes on for the others of its slot, and must bring them none any more."""
    with orders_flowing(accounts):
        for _ in range(2):
            accounts.assign("i2 i1", "i2 i1", "i1 i2", "i1 i2", "i1 i2", "i1 i2")
            accounts.wait(accounts.settled, "one of each to have moved")
            accounts.assign(*SHARED)
            accounts.wait(accounts.settled, "the tasks to be back")

    accounts.check(deadline_s=300)  # they wrote more than a busy machine takes meanwhile
    assert_owners_in_order(accounts)


def test_undecodable_record_fails_its_task_and_no_other(accounts: Accounts) -> None:
    offset = accounts.orders.write_raw(BAD, b"the key", b"{no json")
    accounts.orders.write(300, LIVE)

    task = failed_task(accounts, BAD)
    accounts.failed_tasks.add(BAD)

    assert task.error_kind == "DecodeError"
    assert f"{accounts.orders.topic}[{BAD}] at offset {offset}, key 'the key'" in str(task.error)
    accounts.check()
    accounts.wait(accounts.settled, "the other tasks to stay settled")


def test_function_that_never_returns_to_python_fails_its_task_and_no_other(accounts: Accounts) -> None:
    accounts.orders.write_raw(DEAF, b"deaf", b'{"account": "deaf", "amount": 1}')
    accounts.orders.write(300, LIVE)

    task = failed_task(accounts, DEAF, deadline_s=CALL_TIMEOUT_S + 60)
    accounts.failed_tasks.add(DEAF)

    assert task.error_kind == "WorkerError"
    assert f"took longer than call_timeout_s ({CALL_TIMEOUT_S:g} s)" in str(task.error)
    accounts.check()
    accounts.wait(accounts.settled, "the other tasks to settle")


def test_killed_instance_is_reported_before_its_silence_and_its_standbys_go_on(accounts: Accounts) -> None:
    with orders_flowing(accounts):
        killed_at_ms = time.time_ns() // 1_000_000
        accounts.signal("i2", signal.SIGKILL)
    ended = accounts.wait_for_state("i2", InstanceState.ENDED)
    accounts.assign(*["i1"] * 6)

    assert ended.process.exit_code
    assert accounts.view.heard_at_ms["i2"] - killed_at_ms < Timeouts.instance_s * 1000
    accounts.wait(accounts.settled, "the tasks to settle")
    # The killed one may have been through with all that its tasks had.
    accounts.orders.write(300, LIVE)
    accounts.check()
    changelog = records_of(accounts.connection.bootstrap_servers, accounts.changelog)
    assert {commits(changelog, task)[-1]["instance"] for task in LIVE} == {"i1"}


def test_stopped_instance_shuts_down_cleanly_and_leaves_whole_stores(alone: Accounts) -> None:
    alone.orders.write(1_000, LIVE)
    run_dir = alone.run_dir("i1")
    temporary = {path.name.partition("-")[0] for path in (run_dir / "tmp").iterdir()}
    alone.command(CommandKind.STOP, "i1")

    alone.wait_for_state("i1", InstanceState.STOPPED)
    alone.wait(lambda: not alone.launcher_lives("i1"), "the launcher to end")

    assert alone.status("i1").state is InstanceState.STOPPED, "its exit status was not 0"
    assert not [process for process in alone.processes("i1") if process.is_running()]
    changelog = records_of(alone.connection.bootstrap_servers, alone.changelog)
    for task in LIVE:
        store = Store(alone.directory("i1").database(TaskId(0, task)), ["state"])
        assert dict(store.items("state")) == newest_by_key(changelog, task)
        store.close()
    assert {"spark", "blockmgr", "ss"} <= temporary
    assert {path.name for path in run_dir.iterdir()} == {"command.json", "instance.log", "lock", "process_group"}


def test_changed_cleanup_policy_of_a_living_changelog_ends_its_instance_with_a_typed_error(
    bootstrap_servers: str, application_id: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    with closing(Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=1, seed=37)) as accounts:
        accounts.launch("i1", verify_interval_s=0.5)
        accounts.assign("i1")
        accounts.wait_for_state("i1", InstanceState.RUNNING, deadline_s=120)
        changelog = ConfigResource(ResourceType.TOPIC, accounts.changelog, incremental_configs=[entry])

        admin.incremental_alter_configs([changelog])[changelog].result(30)

        ended = accounts.wait_for_state("i1", InstanceState.ENDED)
        assert str(ended.error).startswith("TopicMismatchError: ")
        assert "cleanup.policy=delete, compact is needed" in str(ended.error)
        accounts.wait(lambda: not accounts.launcher_lives("i1"), "the launcher to end")
