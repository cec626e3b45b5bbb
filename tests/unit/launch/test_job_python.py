from __future__ import annotations

import sys
from pathlib import Path

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.job_python import check_python
from airflow_provider.launch.spark_command import find_binary, interpreters


def test_interpreter_that_has_the_package_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))

    check_python(sys.executable)


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "no interpreter"), ("#!/bin/sh\necho 'No module named airflow_provider' >&2\nexit 1\n", "No module named")],
    ids=["missing", "without-the-package"],
)
def test_interpreter_that_could_not_run_a_launcher_is_refused(tmp_path: Path, text: str | None, why: str) -> None:
    python = tmp_path / "python"
    if text is not None:
        python.write_text(text)
        python.chmod(0o700)

    with pytest.raises(ConfigurationError, match=why):
        check_python(str(python))


def test_driver_and_workers_have_the_jobs_own_interpreter_unless_spark_is_told_another() -> None:
    conf = {"spark.pyspark.python": "/opt/workers/python"}

    assert interpreters(conf, "/opt/job/python") == {"PYSPARK_DRIVER_PYTHON": "/opt/job/python"}


def test_spark_submit_is_the_jobs_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="install pyspark there"):
        find_binary("spark-submit", str(tmp_path / "python"))

    (tmp_path / "spark-submit").touch(mode=0o700)
    assert find_binary("spark-submit", str(tmp_path / "python")) == str(tmp_path / "spark-submit")
