from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider.demo.instance_processes import end_launchers, kill_instance, launchers_under
from tests.waiting import wait_until

# A "JVM" that leads a group, its "driver", and a "daemon" that made a group of its own, as pyspark's does.
JVM = """
import os, subprocess, sys, time
daemon = "import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True); time.sleep(60)"
driver = f"import subprocess, sys, time, os; print(os.getpid(), flush=True); "
driver += f"subprocess.Popen([sys.executable, '-c', {daemon!r}]); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", driver])
time.sleep(60)
"""


@pytest.fixture
def instance() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", JVM], stdout=subprocess.PIPE, process_group=0)
    yield process
    process.kill()
    process.communicate()


def test_kill_ends_every_process_of_an_instance(instance: subprocess.Popen[bytes]) -> None:
    assert instance.stdout is not None
    driver, daemon = (int(instance.stdout.readline()) for _ in range(2))
    members = [psutil.Process(pid) for pid in (instance.pid, driver, daemon)]
    assert os.getpgid(daemon) != os.getpgid(driver) == instance.pid

    _, killed = kill_instance(driver)

    assert killed == 3
    assert instance.wait(5.0) == -9
    wait_until(
        lambda: not any(p.is_running() and p.status() != "zombie" for p in members), 5.0, "the end of the instance"
    )


def test_launchers_of_another_folder_are_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input()", "airflow_provider.streaming.launcher"]
    with (
        subprocess.Popen([*command, str(tmp_path / "ours" / "x")], stdin=subprocess.PIPE) as ours,
        subprocess.Popen([*command, str(tmp_path / "others" / "x")], stdin=subprocess.PIPE) as others,
    ):
        wait_until(lambda: launchers_under(tmp_path / "others"), 5.0, "the other launcher")
        wait_until(lambda: launchers_under(tmp_path / "ours"), 5.0, "our launcher")

        end_launchers(tmp_path / "ours", 5.0)

        assert ours.poll() is not None
        assert [p.pid for p in launchers_under(tmp_path / "others")] == [others.pid]
