"""Starting an instance from the command line, attached to where it lives, launched here otherwise; and ``stop``."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from pathlib import Path

from airflow_provider.cli.options import add_application_options, add_seconds, cluster_of, command_id
from airflow_provider.cli.terminal import ExitStatus, await_condition, say
from airflow_provider.common.files import file_end
from airflow_provider.control.placement.moves import publish_hand_over
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.deployment import Deployment, Placement
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publisher import AssignmentPublisher, publish_by
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.writer import write_control
from airflow_provider.control.waiting.instance import InstanceRunning, await_shutdown
from airflow_provider.errors import ConfigurationError, DeadlineError, InstanceError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_start import Started, late_start, living_instance, start_instance
from airflow_provider.launch.spark_command import interpreters, spark_command

_SHUTDOWN_S = 20.0
_TAIL_BYTES = 4000


def start_deployment(
    cluster: KafkaConnection, deployment: Deployment, master: str, timeouts: Timeouts
) -> InstanceStatus | Started:
    """Launch an instance on this host, unless it lives.

    Returns:
        Its status where it lives, what was started otherwise.
    """
    application_id, instance = deployment.application_id, deployment.instance

    def open_reader() -> ControlReader:
        return ControlReader(cluster, application_id)

    environment = {**interpreters(deployment.conf, deployment.python), **deployment.env_vars}
    command = spark_command(
        deployment.application,
        master=master,
        name=f"{application_id} {instance}",
        conf=deployment.conf,
        environment=environment,
        application_args=deployment.application_args,
        python=deployment.python,
    )
    tied = deployment.placement == Placement.SUPERVISED.value

    def attach_or_launch(publisher: AssignmentPublisher) -> InstanceStatus | Started:
        living = living_instance(publisher.view, instance, timeouts, open_reader)
        recorded = publisher.view.deployments.get(instance)
        changed = () if recorded is None else recorded.differences(deployment)
        if living is None and not changed:
            living = late_start(publisher.view, instance, timeouts, open_reader)
        if living is None:
            return start_instance(publisher, cluster, deployment, command, environment, tied=tied)
        # A supervisor's settings are its own, and what lives may end: that is no error for good.
        if changed and not tied:
            raise ConfigurationError(
                f"{instance!r} lives and was deployed otherwise: {', '.join(changed)}. It was left as it is. Stop it "
                "first to start it as wanted."
            )
        return living

    with open_reader() as reader:
        reader.read_to_end()
        await_shutdown(reader, instance, _SHUTDOWN_S)  # its stores are locked until then
    return publish_by(cluster, application_id, attach_or_launch)


def await_running(cluster: KafkaConnection, deployment: Deployment, started: Started, timeouts: Timeouts) -> None:
    """Wait until a process that was started is up; the end of its log goes to standard error where it does not."""
    running = InstanceRunning(deployment.instance, started.incarnation)
    try:
        await_condition(cluster, deployment.application_id, running, timeouts.start_s, timeouts)
    except (InstanceError, DeadlineError):
        say(file_end(Path(started.launched.log_file), _TAIL_BYTES))
        raise


def has_ended(child: int) -> bool:
    """Whether a child of this process has ended; its exit status is taken."""
    if os.getpid() == 1:  # the init of a container has every orphan's exit status to take
        with contextlib.suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG)[0]) not in (0, child):
                pass
            return reaped == child
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return True


class LogFollower:
    """What was written to a file since the last look.

    Args:
        path: the file; it may not be there yet, and is begun anew when it has become too long.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read(self) -> str:
        """The new text; what is no UTF-8 is replaced."""
        try:
            with self._path.open("rb") as file:
                if self._path.stat().st_size < self._position:
                    self._position = 0
                file.seek(self._position)
                piece = file.read()
        except OSError:
            return ""
        self._position += len(piece)
        return piece.decode("utf-8", "replace")


def add_stop(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``stop``."""
    stop = commands.add_parser("stop", help="stop an instance; others get its tasks first")
    add_application_options(stop)
    stop.add_argument("instance", metavar="INSTANCE", help="its name")
    stop.add_argument("--no-hand-over", action="store_true", help="leave its tasks until it or another is started")
    add_seconds(stop, "--timeout", 60.0, "for its shutdown")
    stop.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    state = stop_instance(
        cluster_of(asked),
        asked.application_id,
        asked.instance,
        to_others=not asked.no_hand_over,
        timeout_s=asked.timeout,
    )
    print(f"{asked.instance} is {state.value}")
    return ExitStatus.FINE


def stop_instance(
    connection: KafkaConnection, application_id: str, instance: str, *, to_others: bool = True, timeout_s: float = 60.0
) -> InstanceState:
    """Hand the tasks of an instance over, ask it to shut down cleanly, and wait for that.

    Args:
        to_others: whether other running instances get its tasks first.

    Returns:
        `InstanceState.STOPPED`, also of one that was stopped before.
    """
    with ControlReader(connection, application_id) as reader:
        view = reader.read_to_end()
        status = view.statuses.get(instance)
        if status is None:
            known = ", ".join(sorted(view.statuses)) or "none"
            raise InstanceError(f"{application_id!r} has no instance {instance!r}, but {known}: correct its name.")
        if to_others:
            publish_by(connection, application_id, lambda own: publish_hand_over(own, instance, Timeouts()))
        if status.state.alive:
            stop = Command(
                id=command_id(),
                kind=CommandKind.STOP,
                instance=instance,
                incarnation=status.incarnation,
                hand_over=to_others,
            )
            write_control(connection, application_id, stop)
        deadline = time.monotonic() + timeout_s
        while (now := reader.view.statuses[instance]).state.alive and now.incarnation == status.incarnation:
            if time.monotonic() > deadline:
                raise DeadlineError(
                    f"{instance!r} is {now.state.value} {timeout_s:g} s after it was asked to stop: look into its log "
                    f"({now.process.log_file} on {now.process.host})."
                )
            reader.poll(0.2)
    if now.incarnation == status.incarnation and now.state is not InstanceState.STOPPED:
        raise InstanceError(f"{instance!r} ended without a clean shutdown: {now.error}")
    return InstanceState.STOPPED
