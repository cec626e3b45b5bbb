"""Starts spark-submit in a session of its own, and reports at once when it ends without a clean shutdown.

A crashed process is so known in well under a second; only a lost host has to wait for the heartbeat timeout.
For local and client mode, where the driver is a child of spark-submit.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import psutil
from confluent_kafka import KafkaException

from airflow_provider.common.clock import now_ms
from airflow_provider.common.files import PRIVATE_UMASK, check_path, create_private_file, file_end
from airflow_provider.common.host_name import host_name
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.status import DiskStatus, InstanceState, InstanceStatus, ProcessStatus
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.writer import ControlWriter
from airflow_provider.errors import ConfigurationError, StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_settings import (
    ARENAS_VARIABLE,
    EXIT_REPORTED,
    INSTANCE_FILE_VARIABLE,
    PROCESS_OF_VARIABLE,
    InstanceSettings,
)
from airflow_provider.launch.job_file import last_error
from airflow_provider.launch.run_folder import RunFolder

LAUNCHER: Final = "airflow_provider.launch.launcher"
TIED: Final = "--tied-to"
"""Of its command line: by which a launcher that ends with its parent is known."""
_LOG_LOOK_S: Final = 10.0
_PARENT_LOOK_S: Final = 0.2
_JAVA_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
_STORED_WITHIN_S: Final = 5.0
_LOOK_S: Final = 0.5


@dataclass(frozen=True)
class Launched:
    """A process that was started.

    Args:
        log_file: where spark-submit's and the job's output go.
    """

    launcher_pid: int
    run_dir: str
    log_file: str


def launch(
    settings: InstanceSettings,
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    python: str = sys.executable,
    tied: bool = False,
) -> Launched:
    """Start `command` under a launcher that outlives the caller.

    Args:
        settings: for the instance; its ``run_dir`` is made for this user alone, and the settings are kept in it. What
            earlier launches left beside it is cleared (`RunFolder`).
        command: spark-submit with its arguments; nothing secret in it.
        env: added to this process's environment, less what is Airflow's own.
        tied: whether the instance is to shut down cleanly when this process ends, however that ends: a supervisor
            started it, and will start the next one.

    Raises:
        ConfigurationError: another user could read or replace what is kept in the folder, or too few files can be
            opened here.
        OSError: the folder or a file in it cannot be written, or no process can be started.
    """
    check_file_limit()
    folder = RunFolder(Path(settings.run_dir).absolute())
    folder.make()
    folder.clear_earlier(settings.run_max_folders, settings.run_max_days)
    settings = dataclasses.replace(settings, log_file=str(folder.log))
    settings.write(folder.settings)
    create_private_file(folder.command, msgspec.json.encode(list(command)))
    environment = {
        # Else each of a worker's many threads has a heap of its own, whose holes are not given back.
        ARENAS_VARIABLE: "2",
        **_inherited(),
        **(env or {}),
        INSTANCE_FILE_VARIABLE: str(folder.settings),
        PROCESS_OF_VARIABLE: f"{settings.application_id}/{settings.instance}",
    }
    parent = [TIED, str(os.getpid())] if tied else []
    # What is locked and logged to outlives this process: both are the launcher's, and its command's, from now on.
    with folder.log.open("ab") as log, folder.lock() as lock:
        process = subprocess.Popen(
            # Without the current folder on the path: others may be able to put modules there.
            [python, "-P", "-m", LAUNCHER, *parent, str(folder.path)],
            env=environment | _for_java(folder.temporary, settings.connection, environment),
            stdin=lock,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=PRIVATE_UMASK,
        )
    return Launched(process.pid, str(folder.path), str(folder.log))


def _for_java(temporary: Path, connection: KafkaConnection, environment: Mapping[str, str]) -> dict[str, str]:
    """Where Python, the JVM and so Spark put temporary files, and what Java's client needs; the user's options win."""
    own = " ".join(f'"{option}"' for option in (f"-Djava.io.tmpdir={temporary}", *connection.to_java_options()))
    options = f"{own} {environment.get(_JAVA_OPTIONS, '')}"
    return {"TMPDIR": str(temporary), _JAVA_OPTIONS: options.strip()}


def _inherited() -> dict[str, str]:
    # A task of Airflow carries connections with their passwords there; the job needs none of them.
    return {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of a launched folder to its end; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {LAUNCHER}",
        description="Runs an instance that airflow_provider.launch.launcher.launch() prepared, and reports its end.",
    )
    parser.add_argument("run_dir", type=Path, help="folder with the instance's settings and command")
    parser.add_argument(TIED, type=int, metavar="PID", help="shut the instance down when this is not the parent")
    asked = parser.parse_args(arguments)
    folder = RunFolder(asked.run_dir.absolute())
    try:
        check_path(folder.command)
        settings = InstanceSettings.read(folder.settings)
        command = msgspec.json.decode(folder.command.read_bytes(), type=list[str])
    except (ConfigurationError, OSError, msgspec.DecodeError) as error:
        parser.error(str(error))
    raise_file_limit()
    try:
        return _supervise(settings, command, folder, asked.tied_to)
    finally:
        folder.clear()


def _supervise(settings: InstanceSettings, command: Sequence[str], folder: RunFolder, tied_to: int | None) -> int:
    """Run the command to its end; report the end unless the instance did.

    The instance exits with status 0 only after its clean shutdown is reported and stored, and with `EXIT_REPORTED`
    only after the error that ended it is; with any other status neither was. A job file that ends with 0 although
    nothing was reported (it does not call ``run(job)``) is looked for in the status topic.
    """
    writer = ControlWriter(settings.connection, settings.application_id)
    # A group of its own, so that driver, executors and Python workers can be ended together, and only they. The driver
    # alone answers what is sent to all of it, as Ctrl-C or a drained host does: the JVM has to outlive its shutdown.
    deaf = ["/bin/sh", "-c", "trap '' TERM INT; exec \"$@\"", "sh", *command]
    process = subprocess.Popen(deaf, process_group=0)
    folder.process_group.write_text(str(process.pid))

    def ask_to_stop(number: int, _: object) -> None:
        request = StopRequest(settings, folder, process.pid)
        threading.Thread(target=request.send, args=(writer, signal.Signals(number).name), daemon=True).start()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    threading.Thread(target=_kill_when_replaced, args=(settings, process.pid), daemon=True).start()
    threading.Thread(target=_bound_log, args=(settings, folder), daemon=True).start()
    if tied_to is not None:
        threading.Thread(target=_stop_without, args=(tied_to,), daemon=True).start()
    code = process.wait()
    if code != 0:
        # The JVM may be gone while its Python workers still hold the stores: a dead instance holds nothing.
        kill_instance(process.pid)
    if code not in (0, EXIT_REPORTED) or not _end_is_reported(settings):
        _report_end(writer, settings, folder, code)
    return code


@dataclass(frozen=True)
class StopRequest:
    """Asks an instance for a clean shutdown: by a command, and by a signal to its driver where no broker answers.

    After either the driver finishes its transactions and closes its stores.

    Args:
        folder: of its launch, where the driver notes its process id.
    """

    settings: InstanceSettings
    folder: RunFolder
    process_group: int

    def send(self, writer: ControlWriter, cause: str) -> None:
        """Ask; return once the command is stored, or the driver has the signal."""
        instance = self.settings.instance
        _say(f"got {cause}, asks instance {instance} to stop")
        stop = Command(
            id=f"launcher-{time.time_ns()}",
            kind=CommandKind.STOP,
            instance=instance,
            incarnation=self.settings.incarnation,
            hand_over=None,
        )
        try:
            writer.write(stop, _STORED_WITHIN_S)
            return
        except StatefulStreamsError as error:
            _say(f"the stop command could not be given through Kafka ({error}): signals the driver itself")
        while (driver := self._driver()) is None:  # not yet up: what is to be stopped is still about to come
            time.sleep(_LOOK_S)
        os.kill(driver, signal.SIGTERM)
        _say(f"sent SIGTERM to the driver, process {driver}; what waits for a broker there may take a minute to end")

    def _driver(self) -> int | None:
        """The driver's process; None where it is not known, or is none of this launch's."""
        try:
            pid = int(self.folder.driver.read_text())
            return pid if os.getpgid(pid) == self.process_group else None
        except (OSError, ValueError):
            return None


def _say(what: str) -> None:
    print(f"launcher: {what}", file=sys.stderr, flush=True)


def _bound_log(settings: InstanceSettings, folder: RunFolder) -> None:
    while True:
        time.sleep(_LOG_LOOK_S)
        folder.rotate_log(settings.log_max_bytes)


def _stop_without(parent: int) -> None:
    """Ask for a clean shutdown once the parent is gone: what a supervisor starts next must find nothing left."""
    while os.getppid() == parent:
        time.sleep(_PARENT_LOOK_S)
    _say("what it was tied to is gone")
    os.kill(os.getpid(), signal.SIGTERM)


def _kill_when_replaced(settings: InstanceSettings, process_group: int) -> None:
    """Kill an instance that hangs once a newer incarnation has its name: it holds locks that the newer one needs."""
    while True:
        try:
            newest = _newer_incarnation(settings)
        except (StatefulStreamsError, KafkaException):
            time.sleep(1.0)
            continue
        _say(f"incarnation {newest} took over, ending this one")
        kill_instance(process_group)
        return


def _newer_incarnation(settings: InstanceSettings) -> int:
    """Wait for a newer incarnation of the instance."""
    with ControlReader(settings.connection, settings.application_id) as reader:
        while True:
            newest = reader.view.statuses.get(settings.instance)
            if newest is not None and newest.incarnation > settings.incarnation:
                return newest.incarnation
            reader.poll(1.0)


def _end_is_reported(settings: InstanceSettings) -> bool:
    """Whether the instance's last status is its end; taken for granted where no broker answers."""
    try:
        with ControlReader(settings.connection, settings.application_id) as reader:
            status = reader.read_to_end().statuses.get(settings.instance)
    except (StatefulStreamsError, KafkaException):
        return True
    return status is not None and (status.incarnation > settings.incarnation or not status.state.alive)


def _log_end(settings: InstanceSettings) -> str:
    """The end of the process's output; empty where there is none."""
    try:
        return file_end(Path(settings.log_file or ""))
    except OSError:
        return ""


_BY_SIGNAL: Final = 128
"""Less than the status with which a shell, or spark-submit, ends after a process that a signal killed."""


def _report_end(writer: ControlWriter, settings: InstanceSettings, folder: RunFolder, code: int) -> None:
    # spark-submit passes on what its driver was killed by; what such a driver logged last was not its end.
    killed_by = -code if code < 0 else code - _BY_SIGNAL if code > _BY_SIGNAL else None
    raised = last_error(_log_end(settings)) if killed_by is None and code > 0 else None
    how = f"the process ended with status {code}" if killed_by is None else f"killed by signal {killed_by}"
    how += " without a clean shutdown"
    if killed_by == signal.SIGKILL and folder.fault.exists():
        how += ": by a drill"
    elif killed_by == signal.SIGKILL:
        how += ": by a person, or by the kernel for want of memory (the kernel's log says)"
    elif code == 0:
        how += ": the job file has to call run(job)"
    status = InstanceStatus(
        application_id=settings.application_id,
        instance=settings.instance,
        incarnation=settings.incarnation,
        state=InstanceState.ENDED,
        process=ProcessStatus(host=host_name(), log_file=settings.log_file, exit_code=code),
        disk=DiskStatus(settings.state_dir),
        sent_at_ms=now_ms(),
        error=how if raised is None else f"{raised} ({how})",
        error_kind=None if raised is None else raised.kind,
    )
    try:
        writer.write(status, timeout_s=30.0)
    except StatefulStreamsError as error:
        # The heartbeat's timeout makes it known instead.
        _say(str(error))


_LEAST: Final = 1024
"""A driver, its JVM with Spark's jars and one task open some 600."""
_WANTED: Final = 65_536


def check_file_limit() -> None:
    """Refuse to start an instance where the host allows too few open files.

    Raises:
        ConfigurationError: even the hard limit is too low.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _LEAST:
        raise ConfigurationError(
            f"A process may open {hard} files here, and an instance needs {_LEAST} at the least, {_WANTED} for many "
            "tasks: raise the limit (LimitNOFILE= of a systemd unit, minfds of supervisor, ulimit -n in a shell, the "
            "container runtime's)."
        )


def raise_file_limit() -> None:
    """Let this process, and what it starts, open as many files as it may: the JVM does so itself, Python does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_SWEEPS: Final = 50
_SWEEP_S: Final = 0.02


def kill_all(find: Callable[[], Iterable[psutil.Process]]) -> None:
    """Kill processes with SIGKILL, and what they still start while they die."""
    for _ in range(_SWEEPS):
        left = list(find())
        if not left:
            return
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(_SWEEP_S)


def kill_instance(process_group: int) -> None:
    """Kill the group of an instance, and what left the group but not the launcher's session, as Spark's daemon does.

    The daemon would end with the JVM by itself; one that stands still does not, and its workers hold the stores. To be
    called by the launcher, which leads the session; where it does not (it was started from a shell, whose other
    processes share the session), only the group is killed.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_group, signal.SIGKILL)
    launcher = os.getpid()
    if os.getsid(0) != launcher:
        return
    kill_all(lambda: _others_of_session(launcher))


def _others_of_session(leader: int) -> Iterator[psutil.Process]:
    """The living processes of a session but its leader."""
    for process in psutil.process_iter(["status"]):
        if process.pid == leader or process.info["status"] in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            continue
        with contextlib.suppress(OSError):
            if os.getsid(process.pid) == leader:
                yield process


if __name__ == "__main__":
    sys.exit(main())
