"""On a cluster an instance has one executor, and ends with it. The cluster is Spark's own, on this host."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider.control.records.status import InstanceState
from tests.integration.streaming.accounts import Accounts, environment

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

# Room for two executors.
MASTER = "local-cluster[2,1,1024]"
ONE_CORE = ("--conf", "spark.executor.cores=1")

TWO = """
from pyspark.sql import SparkSession
from airflow_provider.errors import InstanceError
from airflow_provider.streaming.driver.spark.single_executor import ExecutorWatch
from tests.waiting import wait_until

spark = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()

def finding():
    try:
        ExecutorWatch.of(spark).check()
    except InstanceError as error:
        return str(error)

print("found:", wait_until(finding, 60, "two executors"))
spark.stop()
"""


@pytest.fixture
def accounts(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Accounts]:
    application = Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=2, seed=1)
    yield application
    application.close()


def executors(accounts: Accounts) -> list[psutil.Process]:
    """The JVMs of the executors, without the shell that Spark may have put before one."""
    backend = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    return [p for p in accounts.processes("a") if p.name() == "java" and backend in p.cmdline()]


def test_instance_that_does_not_say_how_large_its_executor_is_is_refused(accounts: Accounts) -> None:
    accounts.launch("a", master=MASTER)

    status = accounts.wait_for_state("a", InstanceState.ENDED)

    assert status.error_kind == "ConfigurationError"
    assert "neither is set" in (status.error or "")


def test_standalone_master_that_does_not_answer_ends_the_instance_and_is_named(accounts: Accounts) -> None:
    accounts.job = (*ONE_CORE, *accounts.job)
    accounts.launch("a", master="spark://127.0.0.1:1")

    status = accounts.wait_for_state("a", InstanceState.ENDED, 400)

    assert status.error_kind == "InstanceError"
    assert "spark://127.0.0.1:1" in (status.error or "")
    assert "a standalone master without spark.deploy.recoveryMode kills" in accounts.log("a")


@pytest.mark.parametrize(
    ("at_its_start", "found"),
    [
        pytest.param("import sys; sys.modules['airflow_provider'] = None", "ModuleNotFoundError", id="without"),
        pytest.param("import airflow_provider as a; a.__version__ = '0.0.1'", "it has version 0.0.1", id="other"),
    ],
)
def test_python_of_the_workers_that_has_not_this_version_ends_the_instance_and_is_named(
    accounts: Accounts, tmp_path: Path, at_its_start: str, found: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(at_its_start)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    named = (f"spark.pyspark.python={python}", f"spark.pyspark.driver.python={sys.executable}")
    accounts.job = (*ONE_CORE, *(word for name in named for word in ("--conf", name)), *accounts.job)
    accounts.launch("a", master=MASTER)

    status = accounts.wait_for_state("a", InstanceState.ENDED, 400)

    assert status.error_kind == "ConfigurationError"
    assert str(python) in (status.error or "")
    assert found in (status.error or "")


def test_instance_works_on_one_executor_of_two_and_ends_when_it_is_lost(accounts: Accounts) -> None:
    accounts.job = (*ONE_CORE, *accounts.job)
    accounts.launch("a", master=MASTER)
    accounts.assign("a", "a")
    accounts.orders.write(200, [0, 1])
    accounts.check(400)
    (executor,) = executors(accounts)

    executor.kill()

    status = accounts.wait_for_state("a", InstanceState.ENDED)
    assert status.error_kind == "InstanceError"
    assert "was lost" in (status.error or "")


def test_two_executors_are_found() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", TWO],
        capture_output=True,
        text=True,
        timeout=180,
        env=os.environ | environment(),
        check=False,
    )

    assert "found: Spark runs 2 executors for this instance" in ended.stdout, ended.stderr[-3000:]
