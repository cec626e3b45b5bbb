"""The clocks of two hosts are ten minutes off, from before their instances start until they are killed."""

from __future__ import annotations

import json
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_provider.cli.main import main
from airflow_provider.control.history.report import FailoverReport, report
from tests.integration.streaming.accounts import Accounts

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

WATCHED_S: Final = 40.0
"""Several times as long as an instance may be silent."""
LOOK_EVERY_S: Final = 0.5
DEADLINE_S: Final = 300.0
MINUTE_MS: Final = 60_000
TASKS: Final = (0, 1, 2)
AHEAD_S: Final = {"i1": 600, "i3": -600}
"""By instance, how far the clock of its host is ahead. That of i2 is right."""


def test_host_whose_clock_is_ten_minutes_off_is_missed_by_nobody_and_tells_no_wrong_age(
    bootstrap_servers: str, application_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = (application_id, "--bootstrap-servers", bootstrap_servers)

    def fail_over() -> list[dict[str, Any]]:
        capsys.readouterr()
        main(["failover", *at, "--json"])
        answers: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return answers

    def kill(name: str) -> FailoverReport:
        """And have its tasks taken over; what that cost."""
        accounts.signal(name, signal.SIGKILL)
        accounts.orders.write(60, TASKS)
        accounts.wait(lambda: bool(fail_over()), f"the end of {name} to be answered", DEADLINE_S)
        accounts.check(DEADLINE_S)
        newest = max(accounts.view.incidents.values(), key=lambda one: one.generation)
        found = report(newest, accounts.view)
        with capsys.disabled():
            print(f"{name} killed: RTO of {found.rto_ms} ms, {found.unmeasured or found.restored_records}")
        return found

    def have_again(name: str, *tasks: str) -> None:
        accounts.launch(name)
        accounts.wait(lambda: accounts.runs(name), f"{name} to run again", DEADLINE_S)
        accounts.assign(*tasks)
        accounts.wait(accounts.settled, "the standbys to be warm again", DEADLINE_S)

    with closing(Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=len(TASKS), seed=41)) as accounts:
        accounts.ahead_s |= AHEAD_S
        names = ("i1", "i2", "i3")
        for name in names:
            accounts.launch(name)
        accounts.wait(lambda: all(map(accounts.runs, names)), "all to run", DEADLINE_S)
        assigned = accounts.assign("i1 i2", "i2 i1", "i3 i2")
        accounts.orders.write(60, TASKS)
        accounts.wait(accounts.settled, "both copies of each task to be warm", DEADLINE_S)
        for name, ahead_s in AHEAD_S.items():
            status, heard_at_ms = accounts.status(name), accounts.view.heard_at_ms[name]
            assert abs(status.sent_at_ms - heard_at_ms - 1000 * ahead_s) < MINUTE_MS, "its clock is wrong indeed"

        # While nothing happens nothing is found, under load.
        lags_s, until = [0.0], time.monotonic() + WATCHED_S
        while time.monotonic() < until:
            time.sleep(LOOK_EVERY_S)
            accounts.orders.write(30, TASKS)
            assert fail_over() == []
            assert main(["status", *at]) == 0
            lags_s += [task.lag_s or 0.0 for one in accounts.view.statuses.values() for task in one.tasks]
        assert accounts.view.assignment == assigned
        assert max(lags_s) < MINUTE_MS / 1000
        accounts.check(DEADLINE_S)

        # Its clock times an RTO: by how far it is ahead is known; one that is behind measures none.
        assert 0 < (kill("i2").rto_ms or 0) < MINUTE_MS
        assert len(accounts.view.incidents) == 1
        have_again("i2", "i1 i2", "i2 i3", "i3 i2")
        found = kill("i2")
        assert (found.rto_ms, "clocks of the brokers and of i3 differ" in str(found.unmeasured)) == (None, True)

        # What is taken over from either begins where it stood.
        have_again("i2", "i1 i2", "i1 i2", "i3 i2")
        for name in AHEAD_S:
            assert 0 < (kill(name).rto_ms or 0) < MINUTE_MS
