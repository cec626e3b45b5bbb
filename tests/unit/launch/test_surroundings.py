from __future__ import annotations

import sys
from pathlib import Path

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.spark_command import find_binary, interpreters
from airflow_provider.launch.surroundings import check_python, ends_with

SERVICE = "0::/system.slice/airflow-worker.service\n"
SCOPE = "0::/system.slice/airflow-worker.scope\n"
SHELL = "0::/user.slice/user-1000.slice/session-3.scope\n"


@pytest.mark.parametrize(
    ("cgroup", "environment", "container", "said"),
    [
        pytest.param(SERVICE, {}, False, "systemd unit airflow-worker.service", id="service"),
        pytest.param(f"9:name=systemd:{SERVICE[3:]}", {}, False, "KillMode=process", id="service-of-version-1"),
        pytest.param(SERVICE, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False, "is a pod", id="pod"),
        pytest.param("0::/kubepods.slice/cri-1.scope\n", {}, False, "in a container", id="kubepods"),
        pytest.param("0::/system.slice/docker-0a1b.scope\n", {}, False, "in a container", id="docker"),
        pytest.param("0::/\n", {}, True, "in a container", id="mark"),
        pytest.param("0::/\n", {"container": "podman"}, False, "in a container", id="podman"),
        pytest.param(SCOPE, {}, False, None, id="scope"),
        pytest.param("0::/system.slice/worker.service/run-r1.scope\n", {}, False, None, id="scope-in-a-service"),
        pytest.param(SHELL, {}, False, None, id="shell"),
        pytest.param("0::/user.slice/user@1000.service/app.slice/run-1.scope\n", {}, False, None, id="user-scope"),
        pytest.param("0::/\n", {}, False, None, id="bare"),
        pytest.param("", {}, False, None, id="nothing"),
    ],
)
def test_worker_is_told_what_its_instances_end_with(
    cgroup: str, environment: dict[str, str], container: bool, said: str | None
) -> None:
    found = ends_with(cgroup, environment, container)

    assert found is None if said is None else said in str(found)


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
