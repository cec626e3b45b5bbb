from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from airflow_provider.kit.process import Child, GroupLeader, started_at
from tests.waiting import wait_until


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], start_new_session=True)


def test_this_process_is_alive() -> None:
    assert GroupLeader.of(os.getpid()).is_alive()


def test_process_that_was_not_waited_for_is_dead() -> None:
    child = sleeper()
    leader = GroupLeader.of(child.pid)
    child.kill()

    assert leader.has_ended(within_s=10)
    child.wait()
    assert started_at(child.pid) is None


def test_process_that_took_over_a_pid_is_another_and_gets_no_signal() -> None:
    child = sleeper()
    former = GroupLeader(child.pid, 1.0)

    former.signal_group(signal.SIGKILL)

    assert not former.is_alive()
    assert GroupLeader.of(child.pid).is_alive()
    child.kill()
    child.wait()


def test_signal_reaches_the_whole_group() -> None:
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True)
    assert shell.stdout is not None
    member = int(shell.stdout.readline())

    GroupLeader.of(shell.pid).signal_group(signal.SIGKILL)

    wait_until(lambda: started_at(member) is None, 10, "the end of the leader's child")
    shell.communicate()


def test_waiting_for_an_end_keeps_to_its_time() -> None:
    child = sleeper()
    begin = time.monotonic()

    assert not GroupLeader.of(child.pid).has_ended(within_s=0.1)

    assert time.monotonic() - begin < 5
    child.kill()
    child.wait()


# Starts a child of its own that does not listen to SIGTERM, and prints its pid.
STUBBORN = """
import signal, subprocess, sys, time
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
print(subprocess.Popen([sys.executable, "-c", code]).pid, flush=True)
time.sleep(60)
"""


def start(tmp_path: Path, code: str) -> Child:
    return Child("thing", [sys.executable, "-c", code], tmp_path / "logs" / "thing.log")


def test_output_goes_to_its_log(tmp_path: Path) -> None:
    child = start(tmp_path, "print('hello'); raise SystemExit(3)")

    assert child.wait(10.0) == 3
    assert child.exit_status == 3
    assert child.log_file.read_text() == "hello\n"
    child.end(1.0)


def test_end_takes_its_whole_group_along(tmp_path: Path) -> None:
    child = start(tmp_path, STUBBORN)
    wait_until(lambda: "up" in child.log_file.read_text(), 10.0, "its child")
    lines = child.log_file.read_text().split()
    stubborn = psutil.Process(next(int(line) for line in lines if line.isdigit()))

    child.end(5.0)

    assert child.exit_status is not None
    wait_until(lambda: not stubborn.is_running() or stubborn.status() == "zombie", 5.0, "the end of the group")


PARENT = """
import subprocess, sys
from airflow_provider.kit.process import start_guard
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
