"""What stores hold of keys, asked of real instances: of owners, of standbys while an owner is away, in bursts."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider.cli.main import main
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.lookup.asking import FoundCopy, Lookup, look_up
from airflow_provider.control.lookup.channel import LookupChannel
from airflow_provider.control.records.lookup import Question
from airflow_provider.control.records.status import Role, TaskState
from airflow_provider.errors import ConfigurationError
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.background import again_and_again
from tests.integration.streaming.committed import ends_of
from tests.integration.streaming.shared_accounts import LIVE, SHARED, SharedAccounts

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]


@pytest.fixture(scope="module", params=[False, True], ids=["spark-reads", "worker-reads"])
def shared(
    bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SharedAccounts]:
    shared = SharedAccounts(bootstrap_servers, tmp_path_factory, request.session, read_by_workers=request.param)
    yield shared
    shared.close()


def ask(accounts: Accounts, account: str) -> Lookup:
    return look_up(accounts.connection, accounts.id, [account], "state", timeout_s=20)


def only(lookup: Lookup) -> FoundCopy:
    (found,) = lookup.found.values()
    return found


def asked_of_owner(accounts: Accounts, account: str) -> FoundCopy:
    """What its owner says: on a busy machine a standby may be the first to answer, for seconds."""
    found = list[FoundCopy]()

    def owned() -> bool:
        found[:] = ask(accounts, account).found.values()
        return [one.copy.state for one in found] == [TaskState.RUNNING]

    accounts.wait(owned, "the owner to answer")
    return found[0]


def value_of(copy: FoundCopy) -> Any:
    (state,) = copy.copy.states
    return json.loads(state.value or "")


def an_account(accounts: Accounts, partition: int) -> str:
    return next(name for name in sorted(accounts.orders.state) if name.startswith(f"p{partition}-"))


def test_owner_of_each_task_says_what_it_holds(accounts: Accounts, capsys: pytest.CaptureFixture[str]) -> None:
    for partition in LIVE:
        account = an_account(accounts, partition)
        found = asked_of_owner(accounts, account)

        assert value_of(found) == accounts.orders.state[account]
        assert found.instance == SHARED[partition].split()[0]
        assert (found.copy.task, found.copy.role, found.copy.state) == (
            TaskId(0, partition),
            Role.ACTIVE,
            TaskState.RUNNING,
        )
        end = ends_of(accounts.connection.bootstrap_servers, accounts.orders.topic)[partition]
        # The end of a transaction is a mark of its own.
        assert found.copy.source_offset in (end, end - 1)

    at = ("--store", "state", "--bootstrap-servers", accounts.connection.bootstrap_servers)
    assert main(["lookup", accounts.id, account, *at, "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["found"]
    assert shown["states"] == [{"name": account, "value": accounts.orders.state[account]}]


def test_key_that_no_store_has_is_absent_in_all_tasks(accounts: Accounts, capsys: pytest.CaptureFixture[str]) -> None:
    found = ask(accounts, "nobody")

    assert (found.found, found.unknown) == ({}, {})
    assert found.absent == tuple(TaskId(0, number) for number in range(6))
    at = ("--store", "state", "--bootstrap-servers", accounts.connection.bootstrap_servers)
    assert main(["lookup", accounts.id, "nobody", *at]) == 3
    assert capsys.readouterr().out == "the store 'state' holds nothing of 'nobody'\n"


def test_question_that_makes_no_sense_is_refused(accounts: Accounts) -> None:
    with pytest.raises(ConfigurationError, match="The job has no store 'other', but 'state'"):
        look_up(accounts.connection, accounts.id, ["ann"], "other", timeout_s=20)
    with pytest.raises(ConfigurationError, match=r"kept by account, and the key has 2 value\(s\)"):
        look_up(accounts.connection, accounts.id, ["ann", "tea"], "state", timeout_s=20)


def test_standby_answers_while_its_owner_hangs_and_owns_afterwards(accounts: Accounts) -> None:
    account = an_account(accounts, 0)
    before = accounts.orders.state[account]
    try:
        accounts.signal("i1", signal.SIGSTOP)
        away = ask(accounts, account)
        standby = only(away)

        assert (standby.instance, standby.copy.role, standby.copy.state) == ("i2", Role.STANDBY, TaskState.FOLLOWING)
        assert value_of(standby) == before

        accounts.assign(*["i2"] * 6)
        # Whoever has it at each moment of the takeover, something is known of the account all the while.
        owner = only(ask(accounts, account))
        while owner.copy.state is not TaskState.RUNNING:
            assert value_of(owner) == before
            owner = only(ask(accounts, account))
        assert (owner.instance, owner.copy.role) == ("i2", Role.ACTIVE)
        assert value_of(owner) == before

        accounts.wait(accounts.settled, "the other instance to run all tasks")
        accounts.orders.write(300, LIVE)
        accounts.check()
        account = an_account(accounts, 0)
        assert value_of(asked_of_owner(accounts, account)) == accounts.orders.state[account]
    finally:
        accounts.signal("i1", signal.SIGCONT)


def test_task_that_nobody_has_is_named(accounts: Accounts) -> None:
    account = an_account(accounts, 0)
    accounts.assign("-", *SHARED[1:])
    accounts.wait(lambda: all(s.task(TaskId(0, 0)) is None for s in accounts.view.statuses.values()), "it to be closed")

    found = ask(accounts, account)

    assert (found.found, found.unknown) == ({}, {TaskId(0, 0): "no instance has it"})


def test_burst_of_questions_holds_no_record_up(accounts: Accounts) -> None:
    """Questions come as fast as the topic takes them; what is written meanwhile is all processed, and counts once."""
    over = threading.Event()
    asked = list[int]()

    def flood() -> None:
        with LookupChannel(accounts.connection, accounts.id) as channel:
            while not over.is_set():
                channel.send(Question(id=f"flood-{len(asked)}", store="state", key=("p0-1",)))
                asked.append(1)

    floods = [threading.Thread(target=flood, daemon=True) for _ in range(2)]
    for thread in floods:
        thread.start()
    try:
        with again_and_again(lambda: accounts.orders.write(60, LIVE), lambda: 0.1):
            accounts.wait(lambda: len(asked) > 500, "a burst")
        accounts.check(deadline_s=180)
    finally:
        over.set()
        for thread in floods:
            thread.join(30)

    account = an_account(accounts, 1)
    assert value_of(asked_of_owner(accounts, account)) == accounts.orders.state[account]
