"""The launcher tells every end without a goodbye, and ends what was replaced."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from airflow_provider.control.status import InstanceState, InstanceStatus
from airflow_provider.streaming.launcher import Launched, launch
from airflow_provider.streaming.settings import InstanceSettings
from tests.integration.airflow.conftest import FAKE_INSTANCE, Application
from tests.waiting import wait_until

Start = Callable[..., Launched]


@pytest.fixture
def start(application: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))

    def start(*command: str) -> Launched:
        settings = InstanceSettings(
            application.id, "a", 5, str(tmp_path / "state"), str(tmp_path / "run"), application.connection
        )
        return launch(settings, [sys.executable, *command])

    return start


def told(application: Application, state: InstanceState, deadline_s: float = 15.0) -> InstanceStatus:
    def look() -> InstanceStatus | None:
        status = application.view().statuses.get("a")
        return status if status is not None and status.state is state else None

    found = wait_until(look, deadline_s, f"the instance to be {state.value}")
    assert found is not None
    return found


@pytest.mark.parametrize("code", [0, 3], ids=["status 0", "status 3"])
def test_end_without_a_goodbye_is_told(application: Application, start: Start, code: int) -> None:
    start("-c", f"raise SystemExit({code})")

    status = told(application, InstanceState.ENDED)

    assert status.exit_code == code
    assert "without a goodbye" in str(status.error)


def test_kill_is_told_within_a_second(application: Application, start: Start) -> None:
    start(str(FAKE_INSTANCE))
    pid = told(application, InstanceState.RUNNING).pid
    killed_at_ms = time.time_ns() // 1_000_000
    os.killpg(os.getpgid(pid), signal.SIGKILL)

    told(application, InstanceState.ENDED)

    assert application.view().heard_at_ms["a"] - killed_at_ms < 1000


def test_instance_that_hangs_is_ended_once_another_took_its_name(application: Application, start: Start) -> None:
    start(str(FAKE_INSTANCE))
    pid = told(application, InstanceState.RUNNING).pid
    os.killpg(os.getpgid(pid), signal.SIGSTOP)

    application.write(InstanceStatus(application.id, "a", 6, InstanceState.STARTING))

    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 10.0, "the process to end")
    assert application.view().statuses["a"].incarnation == 6


FORKS_AWAY = """
import os, pathlib, signal, sys
child = os.fork()
if child == 0:
    os.setpgid(0, 0)  # as Spark's daemon of Python workers does
    signal.pause()
pathlib.Path(sys.argv[1]).write_text(str(child))
signal.pause()
"""


def test_what_left_the_group_of_an_instance_that_hangs_is_ended_too(
    application: Application, start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "child"
    start("-c", FORKS_AWAY, str(file))
    child = int(wait_until(lambda: file.exists() and file.read_text(), 10.0, "the child"))
    os.kill(child, signal.SIGSTOP)

    application.write(InstanceStatus(application.id, "a", 6, InstanceState.STARTING))

    wait_until(lambda: not is_alive(child), 10.0, "the child to end")


def is_alive(pid: int) -> bool:
    """A zombie is none: whoever inherits it takes it away or does not."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_job_gets_nothing_of_airflows_environment(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BANK", "postgres://me:secret@bank/gold")
    file = tmp_path / "environment"
    start("-c", f"import os; open({str(file)!r}, 'w').write(' '.join(os.environ))")

    names = wait_until(lambda: file.exists() and file.read_text(), 10.0, "the job to run")

    assert "STATEFUL_STREAMS_INSTANCE_FILE" in str(names)
    assert "AIRFLOW_CONN_BANK" not in str(names)
