from __future__ import annotations

import sys
from pathlib import Path

import psutil

from airflow_provider.kit.child import Child
from tests.waiting import wait_until

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
