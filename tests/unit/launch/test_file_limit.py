"""In processes of their own: a limit that was lowered cannot be raised again."""

from __future__ import annotations

import subprocess
import sys

CHECK = """
import resource
from airflow_provider.launch.file_limit import check_file_limit, raise_file_limit

resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
raise_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
check_file_limit()
"""


def checked(soft: int, hard: int) -> subprocess.CompletedProcess[str]:
    script = CHECK.format(soft=soft, hard=hard)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_soft_limit_becomes_the_hard_one() -> None:
    found = checked(256, 2048)

    assert (found.returncode, found.stdout.strip()) == (0, "2048"), found.stderr


def test_limit_with_which_no_instance_starts_is_refused_with_the_way_to_raise_it() -> None:
    found = checked(256, 512)

    assert found.returncode != 0
    assert "ConfigurationError: A process may open 512 files here, and an instance needs 1024" in found.stderr
