"""``run --supervised``, an instance in the foreground of systemd, a pod or another supervisor; ``health``, a probe."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import psutil

from airflow_provider.cli.instance import LogFollower, has_ended, start_deployment
from airflow_provider.cli.options import add_seconds, add_start_timeout, set_defaults_of_environment
from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.common.clock import now_ms
from airflow_provider.common.interruption import ignored, interruptible
from airflow_provider.control.records.command import RESTART
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.writer import write_control
from airflow_provider.error_decision import is_permanent
from airflow_provider.error_text import error_line
from airflow_provider.errors import (
    BrokerUnreachableError,
    ConfigurationError,
    InstanceError,
    LoginRefusedError,
    StatefulStreamsError,
    TopicMissingError,
)
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_start import Started
from airflow_provider.launch.run_folder import RUN_DIR, Beat, Pulse, RunFolder, Silence
from airflow_provider.launch.sole_instance import InstanceLock, InstanceProcesses

_POLL_S: Final = 0.5
_WAIT_PAUSE_S: Final = 5.0
_QUICK_S: Final = 120.0
_QUICK_ENDS: Final = 3
_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 60.0
_NOT_LAUNCHED_PAUSE_S: Final = 5.0
"""Before it ends with an error that a supervisor without a pause of its own would meet again at once."""
_FILES_S: Final = 10.0
"""How long a process that was killed may take to let go of its files."""


def exit_status_of(status: InstanceStatus | None, incarnation: int) -> ExitStatus:
    """What a supervisor is told when the process of an instance has ended."""
    if status is None or status.incarnation != incarnation or status.state.alive:
        return ExitStatus.ERROR
    if status.state is InstanceState.STOPPED:
        restart = any(command.startswith(RESTART) for command in status.last_commands[-1:])
        return ExitStatus.RESTART if restart else ExitStatus.FINE
    return ExitStatus.PERMANENT if is_permanent(status.error_kind) else ExitStatus.ERROR


def pause_before_launch_s(launched_ms: Sequence[int], at_ms: int) -> float:
    """How long an instance is left alone before its next launch: not every supervisor waits longer each time.

    Args:
        launched_ms: when it was launched before, the newest first, epoch ms.

    Returns:
        Seconds: none after up to two launches that came to nothing within two minutes, one after the other; then 5,
        and twice as long each time, up to a minute.
    """
    quick = 0
    for before_ms in launched_ms:
        if at_ms - before_ms > _QUICK_S * 1000:
            break
        quick, at_ms = quick + 1, before_ms
    return 0.0 if quick < _QUICK_ENDS else min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (quick - _QUICK_ENDS))


@dataclass(frozen=True, kw_only=True)
class SupervisedRun:
    """One life of an instance, as long as this process.

    Whatever of an instance is killed, nothing of it is left when the next life begins: the instance shuts down when
    this process is gone; this process ends what a killed launcher left; and it begins by waiting for, or ending, what
    an earlier one left on this host.

    Args:
        stop_timeout_s: how long a clean shutdown may take before it is killed, in seconds.
        hang_timeout_s: how long it may give no sign of life before it is killed, in seconds.
        print_log: whether the instance's log goes to standard output too.
    """

    cluster: KafkaConnection
    deployment: Deployment
    master: str
    timeouts: Timeouts
    stop_timeout_s: float
    hang_timeout_s: float
    print_log: bool

    def run(self) -> int:
        """Start the instance, stay until it ends, and say what is to follow.

        Returns:
            An `ExitStatus`: FINE after a stop that was asked for, RESTART after one for the sake of a restart,
            PERMANENT where a restart would meet the same, ERROR otherwise.
        """
        lock = InstanceLock(self._run_dir, self.deployment.application_id, self.deployment.instance)
        try:
            with interruptible(signal.SIGTERM, signal.SIGINT), lock.held(self.stop_timeout_s):
                try:
                    return self._live()
                except KeyboardInterrupt:
                    with ignored(signal.SIGTERM, signal.SIGINT):
                        return self._stop()
        except KeyboardInterrupt:  # while another process kept it
            return ExitStatus.FINE
        except StatefulStreamsError as error:
            _say(error_line(error))
            status = _exit_status_of_error(error)
            if status is ExitStatus.ERROR:
                with contextlib.suppress(KeyboardInterrupt), interruptible(signal.SIGTERM, signal.SIGINT):
                    time.sleep(_NOT_LAUNCHED_PAUSE_S)
            return status

    @property
    def _run_dir(self) -> Path:
        return Path(self.deployment.run_dir).expanduser().absolute()

    @property
    def _processes(self) -> InstanceProcesses:
        return InstanceProcesses(self._run_dir, self.deployment.application_id, self.deployment.instance)

    def _live(self) -> int:
        if self._processes.find():
            _say("waits for what an earlier process left here to end")
            _say(f"{self._processes.end(self.stop_timeout_s)} processes of an earlier one have ended")
        self._await_turn()
        started = self._start()
        _say(f"incarnation {started.incarnation}; its log: {started.launched.log_file}")
        folder = RunFolder(Path(started.launched.run_dir))
        self._stay(started, folder)
        # A launcher that was killed leaves the others; they hold the stores.
        if self._processes.find():
            self._processes.kill()
        return self._verdict(folder)

    def _await_turn(self) -> None:
        before = RunFolder.incarnations(self._run_dir, self.deployment.application_id, self.deployment.instance)
        if pause_s := pause_before_launch_s(before, now_ms()):
            _say(f"its last launches ended soon: waits {pause_s:g} s before the next")
            time.sleep(pause_s)

    def _start(self) -> Started:
        waits_for: type[StatefulStreamsError] | None = None
        while True:
            try:
                self._report_end("its processes are gone, and none of them could report it")
                found = start_deployment(self.cluster, self.deployment, self.master, self.timeouts)
                break
            except (TopicMissingError, BrokerUnreachableError) as error:
                if isinstance(error, LoginRefusedError):
                    raise  # each try brings the account nearer to being locked
                if waits_for is not type(error):
                    missing = isinstance(error, TopicMissingError)
                    what = "the application's topics, which the deploy DAG makes" if missing else "the brokers"
                    _say(f"waits for {what} ({error})")
                waits_for = type(error)
                time.sleep(_WAIT_PAUSE_S)
        if not isinstance(found, Started):
            raise InstanceError(
                f"{found.instance!r} lives on {found.process.host or 'another host'} (incarnation {found.incarnation}) "
                "and is not started here: two must never run at once. Stop it there; its supervisor here tries again."
            )
        return found

    def _stay(self, started: Started, folder: RunFolder) -> None:
        log = LogFollower(Path(started.launched.log_file))
        silence = Silence(
            Pulse(folder.pulse),
            look_s=_POLL_S,
            hang_s=self.hang_timeout_s,
            start_s=self.timeouts.start_s,
        )
        while not has_ended(started.launched.launcher_pid):
            self._show(log)
            time.sleep(_POLL_S)
            if silence.lasts_too_long():
                _say(f"no sign of life for {silence.limit_s:g} s: kills it, to be started again")
                self._processes.kill()
        self._show(log)

    def _show(self, log: LogFollower) -> None:
        text = log.read()
        if self.print_log and text:
            print(text, end="", flush=True)

    def _stop(self) -> int:
        """Have the launcher shut the instance down cleanly; kill what is left when that takes too long."""
        processes = self._processes
        folder = RunFolder.newest(self._run_dir, self.deployment.application_id, self.deployment.instance)
        launchers = processes.launchers_of(os.getpid())
        log = LogFollower(folder.log) if folder and launchers else None
        if launchers:
            _say("stops the instance; its standbys take its tasks over")
        for launcher in launchers:
            with contextlib.suppress(psutil.NoSuchProcess):
                launcher.send_signal(signal.SIGTERM)
        if launchers and not processes.await_end(self.stop_timeout_s):
            _say(f"{len(processes.find())} processes have not ended within {self.stop_timeout_s:g} s: kills them")
        processes.kill()
        if log is not None:
            self._show(log)
        # A stop that was asked for stays, however the instance took it.
        return ExitStatus.FINE if folder is None else self._verdict(folder, ExitStatus.FINE)

    def _verdict(self, folder: RunFolder, asked_for: ExitStatus | None = None) -> int:
        """Clean up after an instance whose processes are gone, and say how it ended.

        Args:
            asked_for: what is said where the end was asked for; None to say what the instance reported.
        """
        from confluent_kafka import KafkaException

        # Its launcher does so, unless it was killed with the rest.
        if folder.await_end(_FILES_S):
            folder.clear()
        else:
            _say(f"{folder.path} is in use still; its secrets are removed by the next launch")
        try:
            self._report_end("it was killed")
            with ControlReader(self.cluster, self.deployment.application_id) as reader:
                status = reader.read_to_end().statuses.get(self.deployment.instance)
        except (StatefulStreamsError, KafkaException) as error:
            verdict = _exit_status_of_error(error) if asked_for is None else asked_for
            _say(f"ended, and how cannot be read ({error_line(error)}); exit status {int(verdict)}")
            return verdict
        verdict = exit_status_of(status, folder.incarnation) if asked_for is None else asked_for
        why = f": {status.error}" if status is not None and status.error else ""
        _say(f"ended, {status.state.value if status else 'unknown'}{why}; exit status {int(verdict)}")
        return verdict

    def _report_end(self, why: str) -> None:
        """Say of a process of this host that is gone, and said nothing itself, that it ended: nobody has to wait."""
        application_id, instance = self.deployment.application_id, self.deployment.instance
        with ControlReader(self.cluster, application_id) as reader:
            status = reader.read_to_end().statuses.get(instance)
        if status is None or not status.state.alive:
            return
        folder = RunFolder(self._run_dir / f"{application_id}-{instance}-{status.incarnation}")
        if not folder.path.exists() or not folder.await_end(_FILES_S):
            return
        _say(f"incarnation {status.incarnation} is {status.state.value}, and its processes are gone: reports its end")
        ended = replace(status, state=InstanceState.ENDED, tasks=(), sent_at_ms=now_ms(), error=why, error_kind=None)
        write_control(self.cluster, application_id, ended)


def _exit_status_of_error(error: Exception) -> ExitStatus:
    # The next start waits for topics.
    lasts = is_permanent(type(error).__name__) and not isinstance(error, TopicMissingError)
    return ExitStatus.PERMANENT if lasts else ExitStatus.ERROR


def _say(what: str) -> None:
    print(f"supervised: {what}", file=sys.stderr, flush=True)


def add_health(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``health``."""
    health = commands.add_parser("health", help="whether an instance that is supervised here lives, without a broker")
    health.add_argument("--application", metavar="APPLICATION", help="its application id; has to be given")
    health.add_argument("--instance", metavar="NAME", help="has to be given")
    health.add_argument("--run-dir", default=RUN_DIR, metavar="FOLDER", help="as of `run` (%(default)s)")
    health.add_argument("--ready", action="store_true", help="whether it is up, too, and takes tasks")
    add_seconds(health, "--max-silence", 30.0, "without a sign of life")
    add_start_timeout(health, "of its start")
    set_defaults_of_environment(health, "--application", "--instance", "--run-dir", "--start-timeout")
    health.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    if not asked.application or not asked.instance:
        raise ConfigurationError("Give --application and --instance, or set them in the environment (docs/cli.md).")
    run_dir = Path(asked.run_dir).expanduser().absolute()
    folder = RunFolder.newest(run_dir, asked.application, asked.instance)
    launched_s = None
    if folder is not None and folder.in_use():
        launched_s = time.time() - folder.incarnation / 1000
    fine, what = health_of(
        kept=InstanceLock(run_dir, asked.application, asked.instance).is_held(),
        launched_s=launched_s,
        beat=None if folder is None or launched_s is None else Pulse(folder.pulse).last(),
        now_ns=time.time_ns(),
        max_silence_s=asked.max_silence,
        start_timeout_s=asked.start_timeout,
        ready=asked.ready,
    )
    print(f"{asked.instance} of {asked.application} {what}")
    return ExitStatus.FINE if fine else ExitStatus.NO


def health_of(
    *,
    kept: bool,
    launched_s: float | None,
    beat: Beat | None,
    now_ns: int,
    max_silence_s: float,
    start_timeout_s: float,
    ready: bool,
) -> tuple[bool, str]:
    """Whether an instance is as it should be, and what is found, in words.

    Args:
        kept: whether a process of ``run --supervised`` keeps it.
        launched_s: seconds since its newest launch, where that has not ended; None otherwise.
        beat: its last sign of life; None before the first.
        ready: whether it has to run, too.
    """
    if not kept:
        return False, "is kept by no process of this host"
    if launched_s is None:
        return not ready, "is about to be launched"
    if beat is None:
        return not ready and launched_s <= start_timeout_s, f"has been starting for {launched_s:.0f} s"
    silent_s = max(0.0, (now_ns - beat.at_ns) / 1e9)
    what = f"is {beat.state.value}, its last sign of life {silent_s:.0f} s ago"
    return silent_s <= max_silence_s and (not ready or beat.state is InstanceState.RUNNING), what
