"""Starts spark-submit in a session of its own and tells at once when it ends without a goodbye.

A crashed process is so known in well under a second; only a lost host has to wait for the heartbeat timeout.
For local and client mode, where the driver is a child of spark-submit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from confluent_kafka import KafkaException

from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.status import InstanceState, InstanceStatus
from airflow_provider.control.writer import ControlWriter
from airflow_provider.errors import BrokerUnreachableError, StatefulStreamsError
from airflow_provider.streaming.settings import EXIT_TOLD, INSTANCE_FILE_VARIABLE, InstanceSettings

__all__ = ["Launched", "launch"]

_SWEEPS, _SWEEP_S = 50, 0.02


@dataclass(frozen=True)
class Launched:
    """A process that was started.

    Args:
        launcher_pid: process id (and session id) of the launcher.
        run_dir: folder of this incarnation.
        log_file: where spark-submit's and the job's output go.
    """

    launcher_pid: int
    run_dir: str
    log_file: str


def launch(settings: InstanceSettings, command: Sequence[str], env: Mapping[str, str] | None = None) -> Launched:
    """Start `command` under a launcher that outlives the caller.

    Args:
        settings: for the instance; its ``run_dir`` is made, and the settings are kept in it for this user alone.
        command: spark-submit with its arguments; nothing secret in it.
        env: added to this process's environment, less what is Airflow's own.
    """
    run_dir = Path(settings.run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    log_file = run_dir / "instance.log"
    settings = dataclasses.replace(settings, log_file=str(log_file))
    settings.write(run_dir / "instance.json")
    (run_dir / "command.json").write_bytes(msgspec.json.encode(list(command)))
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow_provider.streaming.launcher", str(run_dir)],
            env={**_inherited(), **(env or {}), INSTANCE_FILE_VARIABLE: str(run_dir / "instance.json")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Launched(process.pid, str(run_dir), str(log_file))


def _inherited() -> dict[str, str]:
    # A task of Airflow carries connections with their passwords there; the job needs none of them.
    return {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}


def main(run_dir: Path) -> int:
    """Run the command of a launched folder to its end; tell the end unless it said goodbye itself.

    The instance exits with status 0 only after its goodbye is stored, and with `EXIT_TOLD` only after the error that
    ended it is, so any other status means: no word. A job's file that ends with 0 and never said it (it forgot to call
    ``run()``) is told as well.
    """
    settings = InstanceSettings.read(run_dir / "instance.json")
    command = msgspec.json.decode((run_dir / "command.json").read_bytes(), type=list[str])
    writer = ControlWriter(settings.connection, settings.application_id)
    # A group of its own, so that driver, executors and Python workers can be ended together, and only they.
    process = subprocess.Popen(command, process_group=0)
    (run_dir / "process_group").write_text(str(process.pid))

    def ask_to_stop(*_: object) -> None:
        # A signal to the group would tear the JVM from under the driver; the command lets it commit and say goodbye.
        command = Command(f"launcher-{time.time_ns()}", CommandKind.STOP, settings.instance, settings.incarnation)
        threading.Thread(target=writer.send, args=(command,), daemon=True).start()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    threading.Thread(target=_end_when_replaced, args=(settings, process.pid), daemon=True).start()
    code = process.wait()
    if code != 0:
        # The JVM may be gone while its Python workers still hold the stores: a dead instance holds nothing.
        _kill_all(process.pid)
    if code not in (0, EXIT_TOLD) or not _said_goodbye(settings):
        _tell(writer, settings, code)
    return code


def _end_when_replaced(settings: InstanceSettings, process_group: int) -> None:
    """Kill an instance that hangs once a newer incarnation took its name: it holds locks that the newer one needs."""
    while True:
        try:
            with ControlReader(settings.connection, settings.application_id) as reader:
                while not (newest := reader.view.statuses.get(settings.instance)) or (
                    newest.incarnation <= settings.incarnation
                ):
                    reader.poll(1.0)
        except (StatefulStreamsError, KafkaException):
            time.sleep(1.0)
            continue
        print(f"launcher: incarnation {newest.incarnation} took over, ending this one", file=sys.stderr, flush=True)
        _kill_all(process_group)
        return


def _kill_all(process_group: int) -> None:
    """Kill the instance: its group, and those that left it but not the launcher's session, as Spark's daemon does.

    The daemon would end with the JVM by itself; one that stands still does not, and its workers hold the stores.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_group, signal.SIGKILL)
    if os.getsid(0) != os.getpid():
        return  # started by hand: others share the session
    for _ in range(_SWEEPS):
        if not (left := _of_session(os.getpid())):
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_SWEEP_S)


def _of_session(leader: int) -> list[int]:
    """The living processes of a session but its leader; none where the system has no ``/proc``."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in brackets may hold anything.
            state, _, _, session, *_ = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(session) == leader != int(stat.parent.name) and state not in "ZX":
                found.append(int(stat.parent.name))
    return found


def _said_goodbye(settings: InstanceSettings) -> bool:
    """Whether the instance's last word is its goodbye; taken for granted when no broker tells."""
    try:
        with ControlReader(settings.connection, settings.application_id) as reader:
            status = reader.read_to_end().statuses.get(settings.instance)
    except (StatefulStreamsError, KafkaException):
        return True
    return status is not None and (status.incarnation > settings.incarnation or not status.state.alive)


def _tell(writer: ControlWriter, settings: InstanceSettings, code: int) -> None:
    status = InstanceStatus(
        settings.application_id,
        settings.instance,
        settings.incarnation,
        InstanceState.ENDED,
        host=os.uname().nodename,
        state_dir=settings.state_dir,
        sent_at_ms=time.time_ns() // 1_000_000,
        exit_code=code,
        error=f"the process ended with status {code} without a goodbye"
        + ("" if code else ": the job's file has to call run()"),
        log_file=settings.log_file,
    )
    try:
        writer.write(status, timeout_s=30.0)
    except BrokerUnreachableError as error:
        # The heartbeat timeout tells it instead.
        print(f"launcher: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
