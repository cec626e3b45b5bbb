"""What a script that starts Spark finds out: in a process of its own, for its context would be everybody's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def script_results(script: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Run it, and read what it wrote as JSON into the file that its argument names.

    Args:
        script: its text.
        folder: for that file.

    Returns:
        What it wrote, and what it said on standard error.
    """
    path = folder / "results.json"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    read: dict[str, Any] = json.loads(path.read_text())
    return read, done.stderr
