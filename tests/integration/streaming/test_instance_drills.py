"""Drills on two instances of one application on a real Spark: what each kind brings about, and that nothing is lost."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from airflow_provider.cli.main import main
from airflow_provider.common.task_id import TaskId
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.shared_accounts import LIVE, assert_owners_in_order

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]


class Rehearsal:
    """Runs a drill of the command line, which answers what it brings about, while orders come in."""

    def __init__(self, accounts: Accounts, capsys: pytest.CaptureFixture[str]) -> None:
        self._accounts, self._capsys = accounts, capsys
        self._over = threading.Event()

    def run(self, kind: str, *options: str, status: int = 0) -> dict[str, Any]:
        """The drill's record in the history, as plain values; all outputs of a drill that is passed were counted."""
        accounts = self._accounts
        at = (accounts.id, "--bootstrap-servers", accounts.connection.bootstrap_servers)
        orders = threading.Thread(target=self._write)
        orders.start()
        try:
            found = main(["drill", *at, "--kind", kind, "--recovery-timeout", "120", "--json", *options])
        finally:
            self._over.set()
            orders.join()
        said = self._capsys.readouterr()
        assert found == status, said.out + said.err
        record: dict[str, Any] = json.loads(said.out)
        if record["outcome"] == "passed":
            assert record["outputs"]["unmeasured"] is None
            (count,) = record["outputs"]["counts"]
            assert (count["topic"], count["found"]) == (accounts.totals, count["committed"])
            assert count["committed"] > 0
        return record

    def _write(self) -> None:
        while not self._over.wait(0.3):
            self._accounts.orders.write(40, LIVE)


@pytest.fixture
def rehearsal(accounts: Accounts, capsys: pytest.CaptureFixture[str]) -> Rehearsal:
    return Rehearsal(accounts, capsys)


def fault_of(accounts: Accounts, name: str, task: str) -> str | None:
    """The drill's fault that a copy of a task reports last."""
    copy = accounts.status(name).task(TaskId.parse(task))
    return None if copy is None else copy.fault


def test_instance_that_a_drill_has_hang_comes_back_as_a_zombie_and_writes_nothing(
    accounts: Accounts, rehearsal: Rehearsal
) -> None:
    incarnation = accounts.status("i1").incarnation

    drill = rehearsal.run("hang", "--instance", "i1", "--answer")

    assert (drill["cause"], drill["outcome"], drill["instances"]) == ("hang", "passed", ["i1"])
    assert drill["rto"]["detected_ms"] > 4_000  # only its silence tells
    assert drill["rpo"] == {"lost_records": 0, "doubled_records": 0}
    assert accounts.status("i1").incarnation == incarnation
    accounts.check()
    assert_owners_in_order(accounts)


def test_store_that_a_drill_removes_is_found_lost_and_its_standby_goes_on(
    accounts: Accounts, rehearsal: Rehearsal
) -> None:
    drill = rehearsal.run("store_lost", "--instance", "i1", "--answer")

    (task,) = drill["tasks"]
    assert (drill["outcome"], drill["instances"]) == ("passed", ["i1"])
    assert [(decision["action"], decision["to"]) for decision in drill["decisions"]] == [("promote", "i2")]
    assert drill["rpo"] == {"lost_records": 0, "doubled_records": 0}
    assert fault_of(accounts, "i1", task) == drill["id"]
    accounts.check()


def test_standby_whose_store_a_drill_removes_is_restored_while_its_task_goes_on(
    accounts: Accounts, rehearsal: Rehearsal
) -> None:
    drill = rehearsal.run("standby_lost", "--instance", "i2")

    assert (drill["outcome"], drill["instances"], drill["decisions"]) == ("passed", ["i2"], [])
    (restore,) = drill["restores"]
    assert restore["records"] > 0
    accounts.check()


def test_loss_of_all_copies_is_replayed_from_the_changelog(accounts: Accounts, rehearsal: Rehearsal) -> None:
    drill = rehearsal.run("active_and_standby_lost", "--instance", "i1", "--answer")

    assert (drill["outcome"], sorted(drill["instances"])) == ("passed", ["i1", "i2"])
    (task,) = drill["tasks"]
    assert [fault_of(accounts, name, task) for name in ("i1", "i2")] == [drill["id"]] * 2
    assert drill["rpo"] == {"lost_records": 0, "doubled_records": 0}
    accounts.check()


def test_store_that_a_drill_damages_is_found_corrupt_quarantined_and_restored(
    accounts: Accounts, rehearsal: Rehearsal
) -> None:
    aside = accounts.directory("i1").path / "quarantine"
    before = set(aside.glob("*"))

    drill = rehearsal.run("store_corrupted", "--instance", "i1", "--answer")

    (task,) = drill["tasks"]
    assert (drill["outcome"], drill["decisions"][0]["to"]) == ("passed", "i2")
    assert "StoreCorruptedError" in drill["evidence"] or "Corruption" in drill["evidence"]
    assert [folder.name.split("-", 2)[2] for folder in set(aside.glob("*")) - before] == [task]
    accounts.check()


def test_replay_beside_the_living_store_is_compared_and_thrown_away(accounts: Accounts, rehearsal: Rehearsal) -> None:
    before = accounts.view.assignment

    drill = rehearsal.run("shadow_restore", "--instance", "i2")

    (task,), (restore,) = drill["tasks"], drill["restores"]
    assert (drill["outcome"], drill["instances"], drill["decisions"]) == ("passed", ["i2"], [])
    assert restore["records"] > 0
    assert not accounts.directory("i2").shadow(TaskId.parse(task), "state").exists()
    accounts.check()
    assert before is not None
    assert accounts.view.assignment is not None
    assert accounts.view.assignment.tasks == before.tasks
