from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from airflow_provider.demo.instance_processes import end_launchers, launchers_under
from tests.waiting import wait_until


def test_launchers_of_another_folder_are_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input()", "airflow_provider.launch.launcher"]
    with (
        subprocess.Popen([*command, str(tmp_path / "ours" / "x")], stdin=subprocess.PIPE) as ours,
        subprocess.Popen([*command, str(tmp_path / "others" / "x")], stdin=subprocess.PIPE) as others,
    ):
        wait_until(lambda: launchers_under(tmp_path / "others"), 5.0, "the other launcher")
        wait_until(lambda: launchers_under(tmp_path / "ours"), 5.0, "our launcher")

        end_launchers(tmp_path / "ours", 5.0)

        assert ours.poll() is not None
        assert [p.pid for p in launchers_under(tmp_path / "others")] == [others.pid]
