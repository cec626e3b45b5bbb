"""An instance that a supervisor keeps, through the real command and launcher, on a real broker; without Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from airflow_provider.cli.main import main
from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.control.records.command import RESTART, Command, CommandKind
from airflow_provider.control.records.deployment import Placement
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.launch.launcher import LAUNCHER
from airflow_provider.launch.sole_instance import InstanceProcesses
from tests.builders import assigned
from tests.integration.cli.conftest import Launch
from tests.integration.launch.application import FAKE_INSTANCE, Application
from tests.spark_submit_stub import spark_submit_stub
from tests.waiting import wait_until

WAIT_S = 180.0
"""For whatever is waited for: the machine may be busy."""
HUNGRY_JOB = """
import os, runpy, threading, time
from pathlib import Path
Path({group!r}, "cgroup.procs").write_text(str(os.getpid()))
def eat():
    while not Path({hungry!r}).exists():
        time.sleep(0.05)
    eaten = [b"x" * (8 << 20)]
    while True:
        eaten.append(bytes(bytearray(eaten[0])))
threading.Thread(target=eat, daemon=True).start()
runpy.run_path({fake!r}, run_name="__main__")
"""
"""Needs ever more memory once it is told to, in a group of its own.

Of several processes in a group the kernel may end a second one before the memory of the first is free.
"""
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
        words = [
            sys.executable,
            "-m",
            "airflow_provider",
            "run",
            str(job),
            "--supervised",
            "--conf",
            "spark.jars=x",
        ]
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


def lives(pid: int) -> bool:
    """One that is dead and that nobody has waited for yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def launcher_of(processes: InstanceProcesses) -> psutil.Process:
    return next(process for process in processes.find() if LAUNCHER in process.cmdline())


def left_of(run_dir: Path) -> set[str]:
    """Of what a launch needs while it lives: secrets and scratch."""
    return {path.name for path in run_dir.glob("*/*")} & {"instance.json", "tmp", "pulse"}


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """A job file that never comes to its first heartbeat."""
    job = tmp_path / "hanging_job.py"
    job.write_text("import signal\nsignal.pause()\n")
    return job


@pytest.fixture
def small_group(application_id: str) -> Iterator[Path]:
    """A group for processes that may have 500 MiB of memory together."""
    group = Path("/sys/fs/cgroup/memory", application_id)
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(500 << 20))
    except OSError as why:
        pytest.skip(f"no group with a limit can be made here: {why}")
    yield group
    for pid in (group / "cgroup.procs").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    wait_until(lambda: not (group / "cgroup.procs").read_text(), 60.0, "the group to be empty")
    group.rmdir()


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


def test_error_that_a_restart_would_meet_again_has_a_status_of_its_own(
    application: Application, start: Start, tmp_path: Path
) -> None:
    job = tmp_path / "job.py"
    job.write_text("raise AttributeError('no such method')\n")

    assert start(job=job).wait(WAIT_S) == ExitStatus.PERMANENT
    assert start(job=tmp_path / "missing.py").wait(WAIT_S) == ExitStatus.PERMANENT
    assert f"There is no job file '{tmp_path}/missing.py'" in (application.view().statuses["a"].error or "")
    job.write_text("raise OSError('disk')\n")
    assert start(job=job).wait(WAIT_S) == ExitStatus.ERROR


def test_killed_driver_ends_the_command_and_is_reported(
    application: Application, start: Start, processes: InstanceProcesses
) -> None:
    command = start()
    os.killpg(os.getpgid(running(application).process.pid), signal.SIGKILL)

    assert command.wait(WAIT_S) == ExitStatus.ERROR
    assert not processes.find()
    assert application.view().statuses["a"].state is InstanceState.ENDED


def test_instance_without_enough_memory_is_named_and_started_again(
    application: Application, start: Start, processes: InstanceProcesses, small_group: Path, tmp_path: Path
) -> None:
    hungry, job = tmp_path / "hungry", tmp_path / "job.py"
    job.write_text(HUNGRY_JOB.format(group=str(small_group), hungry=str(hungry), fake=str(FAKE_INSTANCE)))
    command = start(job=job)
    before = running(application)

    hungry.touch()

    assert command.wait(WAIT_S) == ExitStatus.ERROR
    assert "for want of memory" in (application.view().statuses["a"].error or "")
    assert not processes.find()
    kept = dict(line.split() for line in (small_group / "memory.oom_control").read_text().splitlines())
    assert int(kept["oom_kill"]) > 0, "it was not the kernel"
    hungry.unlink()
    start(job=job)
    running(application, before.incarnation)


def test_killed_launcher_leaves_no_process_and_is_reported(
    application: Application, start: Start, processes: InstanceProcesses
) -> None:
    command = start()
    running(application)
    launcher_of(processes).kill()

    assert command.wait(WAIT_S) == ExitStatus.ERROR
    assert not processes.find()
    assert application.view().statuses["a"].state is InstanceState.ENDED


def test_killed_command_is_followed_by_a_clean_shutdown_and_the_next_one_waits_for_it(
    application: Application, start: Start
) -> None:
    first = start()
    before = running(application)
    first.kill()

    second = start()

    after = running(application, before.incarnation)
    assert after.process.pid != before.process.pid
    assert not lives(before.process.pid)
    second.send_signal(signal.SIGTERM)
    assert second.wait(WAIT_S) == ExitStatus.FINE


def test_command_and_launcher_killed_at_once_leave_what_the_next_one_ends(
    application: Application, start: Start, processes: InstanceProcesses
) -> None:
    first = start()
    before = running(application)
    launcher = launcher_of(processes)
    first.send_signal(signal.SIGSTOP)
    launcher.kill()
    first.kill()
    assert psutil.pid_exists(before.process.pid)

    start()

    running(application, before.incarnation)
    assert not lives(before.process.pid)


def test_start_that_was_killed_whole_is_not_waited_for(
    application: Application, start: Start, processes: InstanceProcesses, hanging: Path
) -> None:
    first = start(job=hanging)
    wait_until(lambda: len(processes.find()) >= 2, WAIT_S, "the launch")
    first.send_signal(signal.SIGSTOP)
    processes.kill()
    first.kill()
    assert application.view().statuses["a"].state is InstanceState.STARTING

    start("--env", "DAY=monday")

    assert running(application).state is InstanceState.RUNNING


def test_warm_standby_takes_over_while_the_supervisor_starts_the_killed_instance_again(
    application: Application,
    start: Start,
    processes: InstanceProcesses,
    hanging: Path,
    launch_instance: Launch,
    bootstrap_servers: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    application.publish(assigned("a b", application_id=application.id))
    launch_instance(application, "b")
    first = start()
    before = running(application)
    first.send_signal(signal.SIGSTOP)
    processes.kill()
    first.kill()

    start(job=hanging)
    wait_until(lambda: application.view().statuses["a"].incarnation > before.incarnation, WAIT_S, "the next launch")
    assert application.view().statuses["a"].state is InstanceState.STARTING

    assert main(["failover", application.id, "--bootstrap-servers", bootstrap_servers, "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["kind"], answer["moved"]) == ("instance_ended", {"0_0": "b"})
    assert f"a/{before.incarnation}/" in answer["incident_id"]
    assert application.view().statuses["a"].state is InstanceState.STARTING  # nobody waited for it


def test_second_command_on_the_host_starts_nothing(application: Application, start: Start) -> None:
    start()
    status = running(application)

    second = start("--stop-timeout", "1")

    assert second.wait(WAIT_S) == ExitStatus.ERROR
    assert b"is kept by process" in (second.stderr.read() if second.stderr else b"")
    assert running(application).incarnation == status.incarnation


def test_instance_that_lives_elsewhere_is_not_started(
    application: Application, start: Start, run_dir: Path, tmp_path: Path
) -> None:
    start()
    status = running(application)

    other = start("--run-dir", str(tmp_path / "elsewhere"))

    assert other.wait(WAIT_S) == ExitStatus.ERROR
    assert b"two must never run at once" in (other.stderr.read() if other.stderr else b"")
    assert running(application).incarnation == status.incarnation


def test_instance_that_hangs_is_killed_and_its_secrets_are_removed(
    application: Application, start: Start, processes: InstanceProcesses, run_dir: Path
) -> None:
    command = start("--hang-timeout", "2")
    os.killpg(os.getpgid(running(application).process.pid), signal.SIGSTOP)
    assert left_of(run_dir) == {"instance.json", "tmp", "pulse"}

    assert command.wait(WAIT_S) == ExitStatus.ERROR
    assert not processes.find()
    assert not left_of(run_dir)


def test_start_that_hangs_is_killed_to_be_started_again(
    application: Application, start: Start, processes: InstanceProcesses, hanging: Path, run_dir: Path
) -> None:
    command = start("--start-timeout", "2", "--hang-timeout", "1", job=hanging)

    assert command.wait(WAIT_S) == ExitStatus.ERROR
    assert not processes.find()
    assert not left_of(run_dir)
    assert application.view().statuses["a"].state is InstanceState.ENDED


def test_sigterm_stays_a_stop_where_the_start_has_to_be_killed(
    application: Application, start: Start, processes: InstanceProcesses, hanging: Path, run_dir: Path
) -> None:
    command = start("--stop-timeout", "1", job=hanging)
    wait_until(lambda: len(processes.find()) >= 2, WAIT_S, "the launch")

    command.send_signal(signal.SIGTERM)

    assert command.wait(WAIT_S) == ExitStatus.FINE
    assert not processes.find()
    assert not left_of(run_dir)
    assert application.view().statuses["a"].state is InstanceState.ENDED


def test_topics_that_are_not_there_yet_are_waited_for(
    bootstrap_servers: str, application_id: str, start: Start, run_dir: Path
) -> None:
    command = start()
    assert command.stderr is not None
    assert b"waits for the application's topics" in command.stderr.readline()

    application = Application.create(bootstrap_servers, application_id)

    running(application)


def test_health_needs_no_broker(
    application: Application, start: Start, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    health = ["health", "--application", application.id, "--instance", "a", "--run-dir", str(run_dir)]
    assert main(health) == ExitStatus.NO

    command = start()
    running(application)
    assert main(health) == main([*health, "--ready"]) == ExitStatus.FINE
    assert "a is running" not in capsys.readouterr().err
    command.send_signal(signal.SIGTERM)
    command.wait(WAIT_S)

    assert main([*health, "--ready"]) == main(health) == ExitStatus.NO


def test_one_that_was_launched_otherwise_is_left_alone(
    application: Application, start: Start, bootstrap_servers: str, run_dir: Path, tmp_path: Path
) -> None:
    by_hand = ["--application", application.id, "--instance", "a", "--bootstrap-servers", bootstrap_servers]
    folders = ["--state-dir", str(tmp_path / "a"), "--run-dir", str(run_dir), "--conf", "spark.jars=x", "--detach"]
    assert main(["run", str(FAKE_INSTANCE), *by_hand, *folders]) == 0
    status = running(application)

    assert start().wait(WAIT_S) == ExitStatus.ERROR

    assert replace(running(application), sent_at_ms=0).incarnation == status.incarnation
