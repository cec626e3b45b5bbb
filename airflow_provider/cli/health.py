"""``health``: for a liveness or readiness probe on the host of a supervised instance; asks no broker."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.cli.options import set_defaults_of_environment
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.run_folder import RUN_DIR, Beat, Pulse, RunFolder
from airflow_provider.launch.sole_instance import InstanceLock


def add_health(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``health``."""
    health = commands.add_parser("health", help="whether an instance that is supervised here lives, without a broker")
    health.add_argument("--application", metavar="APPLICATION", help="its application id; has to be given")
    health.add_argument("--instance", metavar="NAME", help="has to be given")
    health.add_argument("--run-dir", default=RUN_DIR, metavar="FOLDER", help="as of `run` (%(default)s)")
    health.add_argument("--ready", action="store_true", help="whether it is up, too, and takes tasks")
    health.add_argument(
        "--max-silence", type=float, default=30.0, metavar="SECONDS", help="without a sign of life (%(default)g)"
    )
    health.add_argument(
        "--start-timeout", type=float, default=Timeouts.start_s, metavar="SECONDS", help="of its start (%(default)g)"
    )
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
        now_ns: epoch ns.
        max_silence_s: how long it may give none.
        start_timeout_s: how long it may take to give the first one.
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
