"""``run``: starts an instance as `DeployInstanceOperator` does, through the same launcher, without Airflow."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow_provider import __version__
from airflow_provider.cli.instance import LogFollower, await_running, has_ended, start_deployment, stop_instance
from airflow_provider.cli.options import (
    add_cluster_options,
    add_seconds,
    add_start_timeout,
    cluster_of,
    set_defaults_of_environment,
    settings_option,
)
from airflow_provider.cli.supervised_run import SupervisedRun
from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.common.interruption import interruptible
from airflow_provider.control.records.deployment import Deployment, Placement
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, InstanceError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import check_name
from airflow_provider.launch.instance_start import Started
from airflow_provider.launch.job_file import application_ids_of, check_job_file, sha256_of
from airflow_provider.launch.run_folder import RUN_DIR

# The defaults of Airflow's connections and of the deploy DAG's form.
_KAFKA_CONN_ID: Final = "kafka_streams_default"
_SPARK_CONN_ID: Final = "spark_default"
_STATE_DIR: Final = "/var/lib/stateful-streams"

_OF_ENVIRONMENT: Final = (
    "--application", "--bootstrap-servers", "--config", "--conn-id", "--hang-timeout", "--log", "--master", "--python",
    "--run-dir", "--start-timeout", "--state-dir", "--stop-timeout",
)  # fmt: skip
_POLL_S: Final = 0.5


def add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``run``."""
    run = commands.add_parser("run", help="start an instance on this host, in the foreground or detached")
    run.add_argument("job", metavar="JOB", help="the job file")
    add_cluster_options(run)
    run.add_argument("--instance", metavar="NAME", help="the same over restarts; has to be given")
    run.add_argument("--application", metavar="APPLICATION", help="where the job file does not name it literally")
    run.add_argument("--master", default="local[*]", metavar="URL", help="of Spark (%(default)s)")
    run.add_argument("--state-dir", metavar="FOLDER", help=f"of this instance alone ({_STATE_DIR}/NAME)")
    run.add_argument("--run-dir", default=RUN_DIR, metavar="FOLDER", help="for logs and scratch (%(default)s)")
    run.add_argument("--conf", action="append", default=[], metavar="K=V", help="a Spark setting; kept in Kafka")
    run.add_argument("--env", action="append", default=[], metavar="K=V", help="of the job; kept in Kafka")
    run.add_argument("--arg", action="append", default=[], metavar="A", help="of the job file; kept in Kafka")
    run.add_argument("--python", default="", metavar="FILE", help="the job's own interpreter (this one)")
    run.add_argument("--detach", action="store_true", help="leave it running, and end once it is up")
    run.add_argument("--supervised", action="store_true", help="for a supervisor, which starts it again (docs/cli.md)")
    run.add_argument(
        "--log", choices=["stdout", "file"], default="stdout", help="where its log goes besides its file (%(default)s)"
    )
    add_start_timeout(run)
    add_seconds(run, "--stop-timeout", 60.0, "of its shutdown by Ctrl-C")
    add_seconds(run, "--hang-timeout", 120.0, "without a sign of life, after which --supervised kills it")
    set_defaults_of_environment(run, "--instance", *_OF_ENVIRONMENT)
    run.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    timeouts = Timeouts(start_s=asked.start_timeout)
    if asked.supervised:
        return _supervised(asked, timeouts)
    cluster, deployment = cluster_of(asked), deployment_of(asked)
    started = start_deployment(cluster, deployment, asked.master, timeouts)
    name = f"{deployment.instance} of {deployment.application_id}"
    if not isinstance(started, Started):
        if not asked.detach:
            raise InstanceError(f"{name} runs already (incarnation {started.incarnation}): stop it first, or --detach.")
        print(f"{name} is {started.state.value} already, incarnation {started.incarnation}")
        return ExitStatus.FINE
    print(f"{name}: incarnation {started.incarnation}; its log: {started.launched.log_file}", flush=True)
    if not asked.detach:
        return _stay(cluster, deployment, started, asked.stop_timeout)
    await_running(cluster, deployment, started, timeouts)
    print(f"{name} runs")
    return ExitStatus.FINE


def _supervised(asked: argparse.Namespace, timeouts: Timeouts) -> int:
    try:
        if asked.detach:
            raise ConfigurationError("--supervised stays in the foreground: leave --detach out.")
        run = SupervisedRun(
            cluster=cluster_of(asked),
            deployment=replace(deployment_of(asked), placement=Placement.SUPERVISED.value),
            master=asked.master,
            timeouts=timeouts,
            stop_timeout_s=asked.stop_timeout,
            hang_timeout_s=asked.hang_timeout,
            print_log=asked.log == "stdout",
        )
    except ConfigurationError as error:
        print(f"supervised: ConfigurationError: {error}", file=sys.stderr)
        return ExitStatus.PERMANENT
    return run.run()


def deployment_of(asked: argparse.Namespace) -> Deployment:
    """How the arguments say that the instance is deployed."""
    application_id = check_name("application id", asked.application or application_of(asked.job))
    if not asked.supervised or Path(asked.job).exists():  # the launch reports that it is missing: nobody else is told
        check_job_file(asked.job, application_id)
    if not asked.instance:
        raise ConfigurationError("The instance has no name: give --instance, or set STATEFUL_STREAMS_INSTANCE.")
    instance = check_name("instance", asked.instance)
    job = str(Path(asked.job).resolve())
    return Deployment(
        application_id=application_id,
        instance=instance,
        application=job,
        kafka_conn_id=asked.conn_id or _KAFKA_CONN_ID,
        spark_conn_id=_SPARK_CONN_ID,
        state_dir=str(Path(asked.state_dir or f"{_STATE_DIR}/{instance}").expanduser().absolute()),
        run_dir=asked.run_dir if asked.run_dir.startswith("~") else str(Path(asked.run_dir).absolute()),
        conf=settings_option("--conf", asked.conf),
        application_args=tuple(asked.arg),
        env_vars=settings_option("--env", asked.env),
        job_sha256=sha256_of(job),
        python=asked.python,
        version=__version__,
    )


def application_of(job: str) -> str:
    """The application id that a job file names."""
    named = set(application_ids_of(job))
    found = next(iter(named), None)
    if len(named) != 1 or found is None:
        known = ", ".join(sorted(repr(name) for name in named if name is not None)) or "none"
        raise ConfigurationError(f"{job} names not one application id literally ({known}): give --application.")
    return found


def _stay(cluster: KafkaConnection, deployment: Deployment, started: Started, stop_timeout_s: float) -> int:
    """Print the log until the instance ends; stop it when this process is to end."""
    log = LogFollower(Path(started.launched.log_file))
    try:
        with interruptible(signal.SIGINT, signal.SIGTERM):
            while not has_ended(started.launched.launcher_pid):
                print(log.read(), end="", flush=True)
                time.sleep(_POLL_S)
    except KeyboardInterrupt:
        print("stopping; its tasks go to the others", file=sys.stderr, flush=True)
        try:
            stop_instance(cluster, deployment.application_id, deployment.instance, timeout_s=stop_timeout_s)
        except BrokerUnreachableError:
            # It would run on, and nobody would know of it: its launcher can stop it without a broker.
            print("no broker answers: it is asked by a signal", file=sys.stderr, flush=True)
            os.kill(started.launched.launcher_pid, signal.SIGTERM)
            raise
    print(log.read(), end="", flush=True)
    with ControlReader(cluster, deployment.application_id) as reader:
        status = reader.read_to_end().statuses[deployment.instance]
    if status.incarnation == started.incarnation and status.state is not InstanceState.STOPPED:
        raise InstanceError(
            f"{deployment.instance!r} ended without a clean shutdown: {status.error}. Its log: "
            f"{started.launched.log_file}."
        )
    return ExitStatus.FINE
