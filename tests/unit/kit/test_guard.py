from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from airflow_provider.kit.process import GroupLeader
from tests.waiting import wait_until

PARENT = """
import subprocess, sys
from airflow_provider.kit.guard import start_guard
from airflow_provider.kit.process import GroupLeader
child = subprocess.Popen(["sleep", "60"], start_new_session=True, stdout=subprocess.DEVNULL)
guard = start_guard(GroupLeader.of(child.pid))
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGKILL, id="killed"), pytest.param(signal.SIGTERM, id="ended")]
)
def test_group_dies_with_the_process_that_started_it(number: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    leader = GroupLeader.of(int(parent.stdout.readline()))
    assert leader.is_alive()

    parent.send_signal(number)
    parent.communicate()

    wait_until(lambda: not leader.is_alive(), 10, "the end of the guarded group")
