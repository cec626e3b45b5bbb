"""A spark-submit that runs the job file without Spark."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.instances import end_instances

_SCRIPT = '#!/bin/sh\nfor a in "$@"; do case "$a" in *.py) exec "$PYSPARK_PYTHON" "$a";; esac; done\n'


@contextmanager
def spark_submit_stub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put it first on PATH; gives a folder for runs. What was started from there ends with the block."""
    binary = folder / "bin" / "spark-submit"
    binary.parent.mkdir()
    binary.write_text(_SCRIPT)
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{binary.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    run_dir = folder / "run"
    try:
        yield run_dir
    finally:
        end_instances(run_dir)
