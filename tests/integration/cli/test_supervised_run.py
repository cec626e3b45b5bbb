"""An instance that a supervisor keeps, through the real command and launcher, on a real broker; without Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.control.command import RESTART, Command, CommandKind
from airflow_provider.control.placement import Placement
from airflow_provider.control.status import InstanceState, InstanceStatus
from airflow_provider.launch.launcher import LAUNCHER
from airflow_provider.launch.leftovers import InstanceProcesses
from tests.integration.launch.application import FAKE_INSTANCE, Application
from tests.spark_submit_stub import spark_submit_stub
from tests.waiting import wait_until

WAIT_S = 180.0
"""For whatever is waited for: the machine may be busy."""
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with spark_submit_stub(tmp_path, monkeypatch) as run_dir:
        yield run_dir


@pytest.fixture
def application(bootstrap_servers: str, application_id: str) -> Application:
    return Application.create(bootstrap_servers, application_id)


@pytest.fixture
def processes(run_dir: Path, application_id: str) -> Iterator[InstanceProcesses]:
    found = InstanceProcesses(run_dir, application_id, "a")
    yield found
    found.kill()


@pytest.fixture
def start(
    bootstrap_servers: str, application_id: str, tmp_path: Path, run_dir: Path, processes: InstanceProcesses
) -> Iterator[Start]:
    """The command, with all of its settings in its environment."""
    config = tmp_path / "kafka.properties"
    config.write_text(f"bootstrap.servers={bootstrap_servers}\n")
    environment = {
        "STATEFUL_STREAMS_APPLICATION": application_id,
        "STATEFUL_STREAMS_CONFIG": str(config),
        "STATEFUL_STREAMS_INSTANCE": "a",
        "STATEFUL_STREAMS_STATE_DIR": str(tmp_path / "a"),
        "STATEFUL_STREAMS_RUN_DIR": str(run_dir),
        "STATEFUL_STREAMS_STOP_TIMEOUT": "20",
    }
    started = []

    def start(*more: str, job: Path = FAKE_INSTANCE) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "airflow_provider", "run", str(job), "--supervised", "--conf", "spark.jars=x"]
        process = subprocess.Popen([*words, *more], env=os.environ | environment, stderr=subprocess.PIPE)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(10)


def running(application: Application, after: int = 0, deadline_s: float = WAIT_S) -> InstanceStatus:
    def look() -> InstanceStatus | None:
        status = application.view().statuses.get("a")
        fits = status is not None and status.incarnation > after and status.state is InstanceState.RUNNING
        return status if fits else None

    found = wait_until(look, deadline_s, "the instance to run")
    assert found is not None
    return found


def launcher_of(processes: InstanceProcesses) -> psutil.Process:
    return next(process for process in processes.find() if LAUNCHER in process.cmdline())


def stop_command(status: InstanceStatus, id_: str) -> Command:
    return Command(id=id_, kind=CommandKind.STOP, instance="a", incarnation=status.incarnation)


def test_sigterm_is_a_clean_shutdown_that_leaves_nothing(
    application: Application, start: Start, processes: InstanceProcesses
) -> None:
    command = start()
    status = running(application)
    assert application.view().deployments["a"].placement == Placement.SUPERVISED.value

    command.send_signal(signal.SIGTERM)

    assert command.wait(WAIT_S) == ExitStatus.FINE
    assert not processes.find()
    ended = application.view().statuses["a"]
    assert (ended.incarnation, ended.state, ended.stop_hand_over) == (status.incarnation, InstanceState.STOPPED, None)


@pytest.mark.parametrize(
    ("id_", "expected"), [("stop/by-hand", ExitStatus.FINE), (f"{RESTART}upgrade", ExitStatus.RESTART)]
)
def test_exit_status_tells_a_stop_from_a_restart(
    application: Application, start: Start, id_: str, expected: ExitStatus
) -> None:
    command = start()
    application.write(stop_command(running(application), id_))

    assert command.wait(WAIT_S) == expected
