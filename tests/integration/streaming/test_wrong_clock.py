"""The clock of a host is ten minutes off, from before its instance starts until it is killed, on a real Spark."""

from __future__ import annotations

import json
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_provider.cli.main import main
from airflow_provider.control.history.report import report
from tests.integration.streaming.accounts import Accounts

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

WATCHED_S: Final = 40.0
"""Several times as long as an instance may be silent."""
LOOK_EVERY_S: Final = 0.5
DEADLINE_S: Final = 300.0
MINUTE_MS: Final = 60_000


@pytest.mark.parametrize("ahead_s", [600, -600], ids=["ahead", "behind"])
def test_host_whose_clock_is_ten_minutes_off_is_missed_by_nobody_and_tells_no_wrong_age(
    ahead_s: int, bootstrap_servers: str, application_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = (application_id, "--bootstrap-servers", bootstrap_servers)

    def fail_over() -> list[dict[str, Any]]:
        capsys.readouterr()
        main(["failover", *at, "--json"])
        answers: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return answers

    def kill(name: str) -> None:
        """And have its tasks taken over."""
        accounts.signal(name, signal.SIGKILL)
        accounts.orders.write(40, [0, 1])
        accounts.wait(lambda: bool(fail_over()), f"the end of {name} to be answered", DEADLINE_S)
        accounts.check(DEADLINE_S)

    with closing(Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=2, seed=41)) as accounts:
        accounts.ahead_s["i1"] = ahead_s
        for name in ("i1", "i2"):
            accounts.launch(name)
        accounts.wait(lambda: accounts.runs("i1") and accounts.runs("i2"), "both to run", DEADLINE_S)
        assigned = accounts.assign("i1 i2", "i2 i1")
        accounts.orders.write(40, [0, 1])
        accounts.wait(accounts.settled, "both copies of both tasks to be warm", DEADLINE_S)
        status, heard_at_ms = accounts.status("i1"), accounts.view.heard_at_ms["i1"]
        assert abs(status.sent_at_ms - heard_at_ms - 1000 * ahead_s) < MINUTE_MS, "its clock is wrong indeed"

        # While nothing happens nothing is found, under load.
        lags_s, until = [0.0], time.monotonic() + WATCHED_S
        while time.monotonic() < until:
            time.sleep(LOOK_EVERY_S)
            accounts.orders.write(20, [0, 1])
            assert fail_over() == []
            assert main(["status", *at]) == 0
            lags_s += [task.lag_s or 0.0 for one in accounts.view.statuses.values() for task in one.tasks]
        assert accounts.view.assignment == assigned
        assert max(lags_s) < MINUTE_MS / 1000
        accounts.check(DEADLINE_S)

        # Its clock times an RTO: by how far it is ahead is known; one that is behind measures none.
        kill("i2")
        (first,) = accounts.view.incidents.values()
        found = report(first, accounts.view)
        with capsys.disabled():
            print(f"RTO of {found.rto_ms} ms, {found.unmeasured}; standbys up to {max(lags_s):.1f} s behind")
        if ahead_s > 0:
            assert found.rto_ms is not None
            assert 0 < found.rto_ms < MINUTE_MS
        else:
            assert (found.rto_ms, "clocks of the brokers and of i1 differ" in str(found.unmeasured)) == (None, True)

        # What is taken over from it begins where it stood.
        accounts.launch("i2")
        accounts.wait(lambda: accounts.runs("i2"), "i2 to run again", DEADLINE_S)
        accounts.assign("i1 i2", "i1 i2")
        accounts.wait(accounts.settled, "the standbys to be warm again", DEADLINE_S)
        kill("i1")
        last = report(max(accounts.view.incidents.values(), key=lambda one: one.generation), accounts.view)
        with capsys.disabled():
            print(f"RTO of {last.rto_ms} ms, {last.restored_records} records replayed")
        assert last.rto_ms is not None
        assert 0 < last.rto_ms < MINUTE_MS
