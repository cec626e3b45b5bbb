"""Stopping an instance from the command line, as `StopInstanceOperator` does."""

from __future__ import annotations

import argparse
import time

from airflow_provider.cli.cluster import add_application_options, cluster_of
from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.control.placement.moves import publish_hand_over
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publisher import publish_by
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.writer import write_control
from airflow_provider.errors import DeadlineError, InstanceError
from airflow_provider.kafka.connection import KafkaConnection


def add_stop(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``stop``."""
    stop = commands.add_parser("stop", help="stop an instance; others get its tasks first")
    add_application_options(stop)
    stop.add_argument("instance", metavar="INSTANCE", help="its name")
    stop.add_argument("--no-hand-over", action="store_true", help="leave its tasks until it or another is started")
    stop.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for its shutdown (%(default)g)")
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
        timeout_s: how long its shutdown may take.

    Returns:
        `InstanceState.STOPPED`, also of one that was stopped before.

    Raises:
        InstanceError: there is no such instance, or it ended without a clean shutdown.
        DeadlineError: it did not stop in time.
        FencedError: other publishers took over again and again.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
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
                id=f"command-line-{time.time_ns()}",
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
