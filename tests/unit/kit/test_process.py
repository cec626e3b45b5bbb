from __future__ import annotations

import os
import signal
import subprocess
import time

from airflow_provider.kit.process import GroupLeader, started_at
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
