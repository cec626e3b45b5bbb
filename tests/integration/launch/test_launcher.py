"""The launcher reports every end without a clean shutdown, and ends what was replaced."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.launcher import Launched, launch
from airflow_provider.launch.run_folder import RunFolder
from tests.integration.launch.application import FAKE_INSTANCE, Application
from tests.waiting import wait_until

Start = Callable[..., Launched]


@pytest.fixture
def start(application: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))

    def start(*command: str) -> Launched:
        settings = InstanceSettings(
            application_id=application.id,
            instance="a",
            incarnation=5,
            state_dir=str(tmp_path / "state"),
            run_dir=str(tmp_path / "run"),
            connection=application.connection,
        )
        return launch(settings, [sys.executable, *command])

    return start


def reported(application: Application, state: InstanceState, deadline_s: float = 15.0) -> InstanceStatus:
    def look() -> InstanceStatus | None:
        status = application.view().statuses.get("a")
        return status if status is not None and status.state is state else None

    found = wait_until(look, deadline_s, f"the instance to be {state.value}")
    assert found is not None
    return found


@pytest.mark.parametrize("code", [0, 3], ids=["status 0", "status 3"])
def test_end_without_a_clean_shutdown_is_reported(application: Application, start: Start, code: int) -> None:
    start("-c", f"raise SystemExit({code})")

    status = reported(application, InstanceState.ENDED)

    assert status.process.exit_code == code
    assert "without a clean shutdown" in str(status.error)


def test_kill_is_reported_before_its_silence(application: Application, start: Start) -> None:
    start(str(FAKE_INSTANCE))
    pid = reported(application, InstanceState.RUNNING).process.pid
    killed_at_ms = time.time_ns() // 1_000_000
    os.killpg(os.getpgid(pid), signal.SIGKILL)

    ended = reported(application, InstanceState.ENDED)

    assert str(ended.error) == (
        "killed by signal 9 without a clean shutdown: by a person, or by the kernel for want of memory (the kernel's "
        "log says)"
    )
    assert application.view().heard_at_ms["a"] - killed_at_ms < Timeouts.instance_s * 1000


def test_instance_that_was_killed_is_not_said_to_have_raised_what_it_logged_before(
    application: Application, start: Start
) -> None:
    error = "airflow_provider.errors.BrokerUnreachableError: No broker answered."
    start("-c", f"print('Traceback (most recent call last):\\n{error}'); raise SystemExit(137)")  # as spark-submit

    ended = reported(application, InstanceState.ENDED)

    assert str(ended.error).startswith("killed by signal 9 without a clean shutdown")
    assert ended.error_kind is None


def test_signal_to_the_launcher_is_a_clean_shutdown_that_no_command_of_airflow_asked_for(
    application: Application, start: Start
) -> None:
    launcher = start(str(FAKE_INSTANCE))
    reported(application, InstanceState.RUNNING)

    os.kill(launcher.launcher_pid, signal.SIGTERM)

    assert reported(application, InstanceState.STOPPED).stop_hand_over is None


def test_instance_that_hangs_is_ended_once_another_took_its_name(application: Application, start: Start) -> None:
    start(str(FAKE_INSTANCE))
    pid = reported(application, InstanceState.RUNNING).process.pid
    os.killpg(os.getpgid(pid), signal.SIGSTOP)

    application.write(
        InstanceStatus(application_id=application.id, instance="a", incarnation=6, state=InstanceState.STARTING)
    )

    wait_until(lambda: not psutil.pid_exists(pid), 10.0, "the process to end")
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

    application.write(
        InstanceStatus(application_id=application.id, instance="a", incarnation=6, state=InstanceState.STARTING)
    )

    wait_until(lambda: not is_alive(child), 10.0, "the child to end")


def is_alive(pid: int) -> bool:
    """A zombie is not: its parent may never ask for its exit status."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
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


LEAVES = """
import os, pathlib, sys, tempfile, time
tempfile.mkdtemp(prefix="spark-")
pathlib.Path("left").write_text("state")
found = {"TMPDIR": os.environ["TMPDIR"], "SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"]}
found["mode"] = oct(os.stat("left").st_mode & 0o777)
pathlib.Path("left").unlink()
import json
pathlib.Path(sys.argv[1]).write_text(json.dumps(found))
while not pathlib.Path(sys.argv[1] + ".go").exists():
    time.sleep(0.02)
"""


def test_what_a_process_leaves_lies_in_its_run_folder_for_its_user_alone_and_goes_with_it(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    file = tmp_path / "found"
    launched = start("-c", LEAVES, str(file))
    folder = RunFolder(Path(launched.run_dir))
    wait_until(lambda: file.exists() and file.read_text(), 10.0, "the job to run")

    assert folder.in_use()
    assert folder.settings.exists()
    assert list(folder.temporary.glob("spark-*"))
    (tmp_path / "found.go").touch()

    wait_until(lambda: not folder.in_use(), 15.0, "the launcher to end")
    assert json.loads(file.read_text()) == {
        "TMPDIR": str(folder.temporary),
        "SPARK_SUBMIT_OPTS": f'"-Djava.io.tmpdir={folder.temporary}" -Dmine=1',
        "mode": "0o600",
    }
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "command.json",
        "instance.log",
        "lock",
        "process_group",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.path.iterdir()} == {0o600}


def test_nothing_is_launched_where_others_could_replace_the_command(start: Start, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    with pytest.raises(ConfigurationError, match="could replace what is kept there"):
        start("-c", "raise SystemExit")

    assert not (tmp_path / "run").exists()
