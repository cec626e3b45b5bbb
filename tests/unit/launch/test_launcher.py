from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kit.ports import free_ports
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.launcher import Launched, launch, main
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param([], "required: run_dir", id="none"),
        pytest.param(["a", "b"], "unrecognized arguments: b", id="too-many"),
        pytest.param(["/nowhere"], "/nowhere/instance.json does not hold an instance's settings", id="no-such-folder"),
    ],
)
def test_wrong_arguments_give_a_usage_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith("usage: python -m airflow_provider.launch.launcher [-h] [--tied-to PID] run_dir")
    assert words in said


def test_folder_without_a_command_gives_a_usage_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    InstanceSettings(
        application_id="app",
        instance="i1",
        incarnation=1,
        state_dir="s",
        run_dir="r",
        connection=KafkaConnection("nowhere:1"),
    ).write(tmp_path / "instance.json")
    (tmp_path / "command.json").write_text(json.dumps({"no": "list"}))

    with pytest.raises(SystemExit):
        main([str(tmp_path)])

    assert "array" in capsys.readouterr().err


def test_help_says_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    assert ended.value.code == 0
    assert "reports its end" in capsys.readouterr().out


# Notes its process as a driver does, and ends as one that was asked to stop. What it was started by does not.
STOPPABLE = """
import os, pathlib, signal, subprocess, sys
if len(sys.argv) == 2:
    child = subprocess.Popen([sys.executable, __file__, sys.argv[1], "driver"])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(child.wait())
def stop(*_):
    folder.joinpath("stopped").touch()
    sys.exit(3)
folder = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, stop)
folder.joinpath("driver").write_text(str(os.getpid()))
while True:
    signal.pause()
"""


@contextmanager
def launched_driver(code: str, folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Launched]:
    """A script that is launched as an instance whose broker does not answer, once its driver has noted its process."""
    (port,) = free_ports(1)
    script, run = folder / "script.py", folder / "run"
    script.write_text(code)
    settings = InstanceSettings(
        application_id="app",
        instance="i1",
        incarnation=1,
        state_dir=str(folder / "state"),
        run_dir=str(run),
        connection=KafkaConnection(f"127.0.0.1:{port}"),
    )
    launched = launch(settings, [sys.executable, str(script), str(run)], environment)
    try:
        wait_until(lambda: (run / "driver").exists() and (run / "driver").read_text(), 60.0, "the driver")
        yield launched
    finally:
        with suppress(ProcessLookupError):
            os.killpg(int((run / "process_group").read_text()), signal.SIGKILL)
        os.kill(launched.launcher_pid, signal.SIGKILL)
        os.waitpid(launched.launcher_pid, 0)


def test_signal_reaches_the_driver_although_no_broker_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    with launched_driver(STOPPABLE, tmp_path) as launched:
        os.kill(launched.launcher_pid, signal.SIGTERM)

        wait_until((tmp_path / "run" / "stopped").exists, 60.0, "the driver to stop")
        said = Path(launched.log_file).read_text()
        assert "launcher: got SIGTERM, asks instance i1 to stop" in said
        assert "could not be given through Kafka" in said


HEAPS = """
import os, pathlib, sys, time
(pathlib.Path(sys.argv[1]) / "driver").write_text(os.environ["MALLOC_ARENA_MAX"])
time.sleep(60)
"""


@pytest.mark.parametrize(("given", "found"), [({}, "2"), ({"MALLOC_ARENA_MAX": "8"}, "8")], ids=["default", "set"])
def test_threads_share_two_heaps_unless_the_environment_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], found: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    with launched_driver(HEAPS, tmp_path, given):
        assert (tmp_path / "run" / "driver").read_text() == found


# Starts its driver and lives as long, as spark-submit's JVM does. It does nothing about signals itself.
JVM = """
import os, pathlib, signal, subprocess, sys
folder = pathlib.Path(sys.argv[1])
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, __file__, sys.argv[1], "driver"]).wait()
    folder.joinpath("outlived").touch()
else:
    signal.signal(getattr(signal, os.environ["NUMBER"]), lambda *_: sys.exit())
    folder.joinpath("driver").write_text(str(os.getpid()))
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_signal_to_all_of_an_instance_is_answered_by_its_driver_alone(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    run = tmp_path / "run"
    with launched_driver(JVM, tmp_path, {"NUMBER": number.name}):
        os.killpg(int((run / "process_group").read_text()), number)

        wait_until((run / "outlived").exists, 60.0, "the driver to end, and then what started it")


CHECK = """
import resource
from airflow_provider.launch.launcher import check_file_limit, raise_file_limit

resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
raise_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
check_file_limit()
"""


def checked(soft: int, hard: int) -> subprocess.CompletedProcess[str]:
    script = CHECK.format(soft=soft, hard=hard)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_soft_limit_becomes_the_hard_one() -> None:
    found = checked(256, 2048)

    assert (found.returncode, found.stdout.strip()) == (0, "2048"), found.stderr


def test_limit_with_which_no_instance_starts_is_refused_with_the_way_to_raise_it() -> None:
    found = checked(256, 512)

    assert found.returncode != 0
    assert "ConfigurationError: A process may open 512 files here, and an instance needs 1024" in found.stderr
