"""What a supervisor and its probes are told."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider.cli import supervised_run
from airflow_provider.cli.options import set_defaults_of_environment
from airflow_provider.cli.supervised_run import exit_status_of, health_of, pause_before_launch_s
from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.common.clock import now_ms
from airflow_provider.control.records.command import RESTART
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, LoginRefusedError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_start import Started
from airflow_provider.launch.launcher import Launched
from airflow_provider.launch.run_folder import Beat, Pulse, RunFolder
from tests.builders import instance

STOPPED = replace(instance("a"), incarnation=7, state=InstanceState.STOPPED)
ENDED = replace(STOPPED, state=InstanceState.ENDED)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(STOPPED, ExitStatus.FINE, id="clean"),
        pytest.param(replace(STOPPED, last_commands=(f"{RESTART}u", "stop/x")), ExitStatus.FINE, id="asked-to-stop"),
        pytest.param(replace(STOPPED, last_commands=("pause", f"{RESTART}u")), ExitStatus.RESTART, id="upgrade"),
        pytest.param(ENDED, ExitStatus.ERROR, id="crash"),
        pytest.param(replace(ENDED, error_kind="ConfigurationError"), ExitStatus.PERMANENT, id="setting"),
        pytest.param(replace(ENDED, error_kind="BrokerUnreachableError"), ExitStatus.ERROR, id="brokers"),
        pytest.param(replace(ENDED, error_kind="LoginRefusedError"), ExitStatus.PERMANENT, id="login"),
        pytest.param(replace(STOPPED, incarnation=8), ExitStatus.ERROR, id="another-process"),
        pytest.param(None, ExitStatus.ERROR, id="unknown"),
    ],
)
def test_exit_status_says_whether_a_restart_makes_sense(status: InstanceStatus | None, expected: ExitStatus) -> None:
    assert exit_status_of(status, 7) is expected


@pytest.mark.parametrize(
    ("kept", "launched_s", "beat", "live", "ready"),
    [
        pytest.param(False, None, None, False, False, id="nothing"),
        pytest.param(True, None, None, True, False, id="before-the-launch"),
        pytest.param(True, 60.0, None, True, False, id="starting"),
        pytest.param(True, 600.0, None, False, False, id="starts-for-too-long"),
        pytest.param(True, 600.0, Beat(InstanceState.STARTING, 99_000_000_000), True, False, id="connecting"),
        pytest.param(True, 600.0, Beat(InstanceState.RUNNING, 99_000_000_000), True, True, id="running"),
        pytest.param(True, 600.0, Beat(InstanceState.RUNNING, 60_000_000_000), False, False, id="silent"),
        pytest.param(False, 600.0, Beat(InstanceState.RUNNING, 99_000_000_000), False, False, id="orphan"),
    ],
)
def test_health_is_what_the_host_shows(
    kept: bool, launched_s: float | None, beat: Beat | None, live: bool, ready: bool
) -> None:
    def fine(ready: bool) -> bool:
        return health_of(
            kept=kept,
            launched_s=launched_s,
            beat=beat,
            now_ns=100_000_000_000,
            max_silence_s=30.0,
            start_timeout_s=180.0,
            ready=ready,
        )[0]

    assert (fine(ready=False), fine(ready=True)) == (live, ready)


def test_pulse_tells_the_last_state_and_when(tmp_path: Path) -> None:
    pulse = Pulse(tmp_path / "pulse")
    assert pulse.last() is None

    pulse.beat(InstanceState.RUNNING)

    beat = pulse.last()
    assert beat == Beat(InstanceState.RUNNING, (tmp_path / "pulse").stat().st_mtime_ns)
    Pulse(tmp_path / "gone" / "pulse").beat(InstanceState.RUNNING)  # no folder: silence, and no error


def test_pulse_is_whole_whenever_it_is_read(tmp_path: Path) -> None:
    pulse = Pulse(tmp_path / "pulse")
    pulse.beat(InstanceState.STARTING)
    with (tmp_path / "pulse").open() as reader:
        pulse.beat(InstanceState.RUNNING)
        assert reader.read() == InstanceState.STARTING.value
    before = pulse.last()
    os.utime(tmp_path / "pulse", (1, 1))

    pulse.beat(InstanceState.RUNNING)

    after = pulse.last()
    assert before is not None
    assert after is not None
    assert (after.state, after.at_ns >= before.at_ns) == (InstanceState.RUNNING, True)
    assert [path.name for path in tmp_path.iterdir()] == ["pulse"]


class _Reader:
    """Of the control topics, in which nothing is; from the start of the instance on they may not be read."""

    started = False

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read_to_end(self) -> ControlView:
        if self.started:
            raise ConfigurationError("Reading app-assignment is not authorized")
        return ControlView("app")


def supervised_by(folder: Path) -> supervised_run.SupervisedRun:
    deployment = Deployment(
        application_id="app",
        instance="a",
        application="job.py",
        kafka_conn_id="k",
        spark_conn_id="s",
        state_dir=str(folder / "state"),
        run_dir=str(folder / "run"),
    )
    return supervised_run.SupervisedRun(
        cluster=KafkaConnection("localhost:1"),
        deployment=deployment,
        master="local",
        timeouts=Timeouts(),
        stop_timeout_s=1.0,
        hang_timeout_s=60.0,
        print_log=False,
    )


def test_end_that_cannot_be_read_for_want_of_a_right_is_said_and_left_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path / "run" / "app-a-7")

    def start(*_: object) -> Started:
        monkeypatch.setattr(_Reader, "started", True)
        folder.make()
        return Started(7, Launched(subprocess.Popen([sys.executable, "-c", ""]).pid, str(folder.path), str(folder.log)))

    monkeypatch.setattr(supervised_run, "ControlReader", _Reader)
    monkeypatch.setattr(supervised_run, "start_deployment", start)

    assert supervised_by(tmp_path).run() == ExitStatus.PERMANENT

    assert "supervised: ended, and how cannot be read (ConfigurationError: Reading app" in capfd.readouterr().err


def test_login_that_is_refused_and_a_folder_that_cannot_be_written_wait_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Refused(_Reader):
        def read_to_end(self) -> ControlView:
            raise LoginRefusedError("The login of 'app' is refused")

    monkeypatch.setattr(supervised_run, "ControlReader", Refused)
    assert supervised_by(tmp_path).run() == ExitStatus.PERMANENT
    assert "supervised: LoginRefusedError: The login of 'app' is refused" in capfd.readouterr().err

    (tmp_path / "file").touch()
    assert supervised_by(tmp_path / "file").run() == ExitStatus.PERMANENT
    said = capfd.readouterr().err
    assert f"ConfigurationError: The run folder {tmp_path}/file/run cannot be written" in said
    assert said.count("\n") == 1


def test_start_waits_for_brokers_that_are_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Away(_Reader):
        looks = 0

        def read_to_end(self) -> ControlView:
            Away.looks += 1
            if Away.looks < 4:
                raise BrokerUnreachableError("no broker answered")
            raise ConfigurationError("and then something else")

    monkeypatch.setattr(supervised_run, "_WAIT_PAUSE_S", 0.0)
    monkeypatch.setattr(supervised_run, "ControlReader", Away)

    assert supervised_by(tmp_path).run() == ExitStatus.PERMANENT

    said = capfd.readouterr().err
    assert said.count("waits for the brokers (no broker answered)") == 1
    assert "and then something else" in said


def test_launches_that_come_to_nothing_are_further_and_further_apart() -> None:
    every_minute = [1_000_000 - 60_000 * number for number in range(1, 10)]

    found = [pause_before_launch_s(every_minute[:ended], 1_000_000) for ended in range(10)]

    assert found == [0, 0, 0, 5, 10, 20, 40, 60, 60, 60]
    lived_for_long = [900_000, 840_000, *(number - 600_000 for number in every_minute)]
    assert pause_before_launch_s(lived_for_long, 1_000_000) == 0


def test_launches_in_a_loop_wait_for_their_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def start(*_: object) -> Started:
        incarnation = now_ms()
        folder = RunFolder(tmp_path / "run" / f"app-a-{incarnation}")
        folder.make()
        ended = subprocess.Popen([sys.executable, "-c", ""])
        return Started(incarnation, Launched(ended.pid, str(folder.path), str(folder.log)))

    monkeypatch.setattr(supervised_run, "ControlReader", _Reader)
    monkeypatch.setattr(supervised_run, "start_deployment", start)
    monkeypatch.setattr(supervised_run, "_POLL_S", 0.01)
    monkeypatch.setattr(supervised_run, "_FIRST_PAUSE_S", 1.0)
    monkeypatch.setattr(supervised_run, "_LONGEST_PAUSE_S", 2.0)
    supervised, ended_ms = supervised_by(tmp_path), []

    for _ in range(6):
        assert supervised.run() == ExitStatus.ERROR
        ended_ms.append(now_ms())

    launched_ms = sorted(RunFolder.incarnations(tmp_path / "run", "app", "a"))
    paused_ms = [launched - ended for launched, ended in zip(launched_ms[1:], ended_ms[:-1], strict=True)]
    assert all(paused >= least for paused, least in zip(paused_ms, [0, 0, 1_000, 2_000, 2_000], strict=True))
    said = re.findall(r"waits ([0-9.]+) s before the next", capfd.readouterr().err)
    assert said == ["1", "2", "2"]


def test_launches_are_known_by_their_folders(tmp_path: Path) -> None:
    for name in ("app-a-1000", "app-a-3000", "app-a-2000", "app-b-3000", "app-a-notes"):
        (tmp_path / name).mkdir()

    assert RunFolder.incarnations(tmp_path, "app", "a") == [3000, 2000, 1000]
    assert RunFolder.incarnations(tmp_path / "gone", "app", "a") == []


def test_stop_in_the_middle_of_a_launch_stays_one_and_leaves_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run" / "app-a-7")

    def start(*_: object) -> Started:
        monkeypatch.setattr(_Reader, "started", True)
        folder.make()
        folder.settings.write_text("password")
        raise KeyboardInterrupt

    monkeypatch.setattr(supervised_run, "ControlReader", _Reader)
    monkeypatch.setattr(supervised_run, "start_deployment", start)

    assert supervised_by(tmp_path).run() == ExitStatus.FINE

    assert sorted(path.name for path in folder.path.iterdir()) == ["instance.log", "lock"]


def test_environment_gives_what_the_command_line_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*words: str) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        parser.add_argument("--state-dir")
        parser.add_argument("--stop-timeout", type=float, default=60.0)
        set_defaults_of_environment(parser, "--state-dir", "--stop-timeout")
        return parser.parse_args(words)

    monkeypatch.setenv("STATEFUL_STREAMS_STATE_DIR", "/data")
    monkeypatch.setenv("STATEFUL_STREAMS_STOP_TIMEOUT", "7")

    assert asked() == argparse.Namespace(state_dir="/data", stop_timeout=7.0)
    assert asked("--state-dir", "/other").state_dir == "/other"
