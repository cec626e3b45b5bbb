"""An application that test after test borrows, whole each time, because its instances are dear: each is a JVM."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

import pytest

from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.committed import commits, records_of

LIVE: Final = (0, 1, 2, 3)
"""The partitions that get orders only."""
SHARED: Final = ("i1 i2", "i2 i1", "i1 i2", "i2 i1", "i1 i2", "i1 i2")
CALL_TIMEOUT_S: Final = 40.0
WITH_UI: Final = "i1"


class SharedAccounts:
    """Lends one application to test after test, whole each time.

    Args:
        bootstrap_servers: the broker's.
        folders: makes a folder for each application.
        session: knows whether a test failed since the last one was given the application.
        read_by_workers: whether its job has no step, so that its workers read the orders themselves.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        folders: pytest.TempPathFactory,
        session: pytest.Session,
        read_by_workers: bool = False,
    ) -> None:
        self._bootstrap_servers, self._folders, self._session = bootstrap_servers, folders, session
        self._read_by_workers = read_by_workers
        self._accounts: Accounts | None = None
        self._failed = 0

    def lend(self, tasks: Sequence[str]) -> Accounts:
        """The application with its tasks placed like this, settled, and all orders so far counted."""
        if self._session.testsfailed != self._failed:
            self.close()
        self._failed = self._session.testsfailed
        if self._accounts is None:
            id_ = f"accounts-{uuid.uuid4().hex[:8]}"
            self._accounts = Accounts(self._bootstrap_servers, id_, self._folders.mktemp(id_), num_tasks=6, seed=31)
            if self._read_by_workers:
                self._accounts.job = (*self._accounts.job, "plain")
                self._accounts.orders.all_named = True
        make_whole(self._accounts, tasks)
        return self._accounts

    def close(self) -> None:
        if self._accounts is not None:
            self._accounts.close()
            self._accounts = None


def make_whole(accounts: Accounts, tasks: Sequence[str]) -> None:
    needed = sorted({name for words in tasks for name in words.split()})

    def all_run() -> bool:
        for name in needed:
            # Of an instance that a test has just killed the launcher lives on for a moment, and its status for longer.
            if not accounts.launcher_lives(name):
                launch(name)
        return all(map(accounts.runs, needed))

    def launch(name: str) -> None:
        accounts.launch(name, ui=name == WITH_UI, call_timeout_s=CALL_TIMEOUT_S)

    for name in needed:
        if not accounts.runs(name):
            launch(name)
    accounts.assign(*tasks)
    accounts.wait(all_run, "the instances to run", deadline_s=180)
    accounts.orders.write(300, LIVE)
    accounts.wait(lambda: all_run() and accounts.settled(), "all tasks to settle", deadline_s=180)
    accounts.check(deadline_s=180)


def assert_owners_in_order(accounts: Accounts) -> dict[int, list[tuple[int, str]]]:
    """No owner committed after its successor; the generation and instance of every commit, by task."""
    changelog = records_of(accounts.connection.bootstrap_servers, accounts.changelog)
    owners = {
        task: [(record["generation"], record["instance"]) for record in commits(changelog, task)] for task in LIVE
    }
    for task, of_task in owners.items():
        assert of_task == sorted(of_task), f"an owner of 0_{task} committed after its successor"
    return owners
