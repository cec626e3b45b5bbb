"""Starting an instance once, however many want to: a launch is claimed by a fenced write before the process starts."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from airflow_provider.common.clock import now_ms
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.status import DiskStatus, FormerProcess, InstanceState, InstanceStatus
from airflow_provider.control.topics.liveness import Liveness, Timeouts, liveness, may_be_starting
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.topics.writer import write_control
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.job_file import check_job_file
from airflow_provider.launch.launcher import Launched, launch
from airflow_provider.launch.run_folder import RunFolder

_HANGS_AFTER_STARTS: Final = 3
"""A process that still starts after so many times what a start may take is replaced, unless it speaks."""


_last_words: Final = set[tuple[str, str, int, int]]()
"""Of instances after which nothing came while it was listened for: the application, the instance, its incarnation and
when it was heard last, by the broker's clock."""


@dataclasses.dataclass(frozen=True)
class Started:
    """A process that was started."""

    incarnation: int
    launched: Launched


def living_instance(
    view: ControlView, instance: str, timeouts: Timeouts, open_reader: Callable[[], ControlReader]
) -> InstanceStatus | None:
    """The status of an instance that lives or may be starting; None where one can be started.

    Args:
        open_reader: opens a reader of the application. One look cannot tell whether a lone instance is silent, so its
            next heartbeat is listened for.
    """
    status = view.statuses.get(instance)
    if status is None or liveness(status, view.silent_for_s.get(instance, 0.0), timeouts) is not Liveness.ALIVE:
        return None
    if status.state is InstanceState.STARTING:
        return status if may_be_starting(status, now_ms(), timeouts) else None
    return _next_word(view, instance, timeouts, open_reader)


def late_start(
    view: ControlView, instance: str, timeouts: Timeouts, open_reader: Callable[[], ControlReader]
) -> InstanceStatus | None:
    """The status of an instance that takes longer to start than it may, and whose process lives; None otherwise.

    A process on this host is known by its folder, for three times as long as a start may take: one that starts for
    longer hangs. For one that hangs, or that was launched elsewhere, only its own word counts, and is listened for.
    """
    status, deployment = view.statuses.get(instance), view.deployments.get(instance)
    if status is None or status.state is not InstanceState.STARTING:
        return None
    if deployment is not None:
        folder = RunFolder(_folder(deployment, status.incarnation))
        in_use = folder.in_use()
        if not in_use and folder.path.exists():
            return None
        if in_use and now_ms() - status.incarnation < _HANGS_AFTER_STARTS * timeouts.start_s * 1000:
            return status
    return _next_word(view, instance, timeouts, open_reader)


def reason_to_launch(status: InstanceStatus, silent_for_s: float, timeouts: Timeouts) -> str:
    """Why an instance is launched again that neither `living_instance` nor `late_start` found, in one line."""
    before = f"incarnation {status.incarnation} "
    if not status.state.alive:
        why = f": {' '.join(status.error.split())}" if status.error else ""
        return f"{before}is {status.state.value}{why}"
    if status.state is InstanceState.STARTING:
        takes_s = (now_ms() - status.incarnation) / 1000
        return (
            f"{before}has been starting for {takes_s:.0f} s, a start may take {timeouts.start_s:g} s, and no process "
            "of it was found that lives and is not stuck"
        )
    at_least_s = max(silent_for_s, timeouts.instance_s)
    return f"{before}is {status.state.value} and sends no heartbeat, the last one {at_least_s:.0f} s ago or longer"


def failed_process(view: ControlView, instance: str) -> FormerProcess | None:
    """The process of an instance in whose place another one is about to be started; None where it did not fail.

    Whoever starts it again, its standbys need not wait for that. Only one that stopped because it was asked to has
    handed its tasks over, or is to keep them.

    Args:
        view: in which no process of it lives.
    """
    known = view.statuses.get(instance)
    if known is None or (known.state is InstanceState.STOPPED and known.stop_hand_over is not None):
        return None
    return FormerProcess(
        incarnation=known.incarnation,
        state=known.state,
        heard_at_ms=view.heard_at_ms.get(instance, 0),
        generation=max(known.generation, view.assignment.generation if view.assignment else 0),
        how=" ".join((known.error or f"it was {known.state.value} and is gone").split()),
    )


def _next_word(
    view: ControlView, instance: str, timeouts: Timeouts, open_reader: Callable[[], ControlReader]
) -> InstanceStatus | None:
    """What an instance says after what the view knows of it; None where it is silent, or says that it ended.

    It is listened for once: where nothing newer came until a later look, it is silent still. Two that start instances
    side by side would else take the right to publish from each other as long as both listen.
    """
    word = (view.application_id, instance, view.statuses[instance].incarnation, view.heard_at_ms[instance])
    if word in _last_words:
        return None
    with open_reader() as reader:
        newest = reader.read_to_end()
        silent = reader.listen(lambda: (instance,), timeouts.instance_s, {instance: view.heard_at_ms[instance]})
        heard = newest.statuses.get(instance)
        if silent:
            reader.read_to_end()  # raises where it was the brokers that were silent
            _last_words.add(word)
        return heard if not silent and heard is not None and heard.state.alive else None


def _folder(deployment: Deployment, incarnation: int) -> Path:
    name = f"{deployment.application_id}-{deployment.instance}-{incarnation}"
    return Path(deployment.run_dir).expanduser() / name


def start_instance(
    publisher: AssignmentPublisher,
    connection: KafkaConnection,
    deployment: Deployment,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    tied: bool = False,
) -> Started:
    """Claim the launch of an instance, and launch it.

    Args:
        publisher: has read that no process of it lives.
        tied: whether it ends with this process (`launch`).

    Raises:
        FencedError: a newer publisher exists. Nothing was started.
        ConfigurationError: it could not be launched here.
    """
    known = publisher.view.statuses.get(deployment.instance)
    incarnation = max(now_ms(), known.incarnation + 1 if known else 0)
    application_id, instance = deployment.application_id, deployment.instance
    former = failed_process(publisher.view, instance)
    settings = InstanceSettings(
        application_id=application_id,
        instance=instance,
        incarnation=incarnation,
        state_dir=deployment.state_dir,
        run_dir=str(_folder(deployment, incarnation)),
        connection=connection,
        former=former,
        run_max_folders=deployment.run_max_folders,
        log_max_bytes=deployment.log_max_bytes,
    )
    claim = InstanceStatus(
        application_id=application_id,
        instance=instance,
        incarnation=incarnation,
        state=InstanceState.STARTING,
        disk=DiskStatus(deployment.state_dir),
        sent_at_ms=incarnation,
        former=former,
    )
    publisher.publish(None, deployment, claim)
    try:
        # Behind the claim, so that the status says it: a deployment on record, or a supervisor, has nobody to tell.
        check_job_file(deployment.application, application_id)
        python = deployment.python or sys.executable
        return Started(incarnation, launch(settings, command, environment, python=python, tied=tied))
    except (OSError, ConfigurationError) as error:
        # The claim must not be taken for a process that starts.
        kind = ConfigurationError.__name__
        ended = dataclasses.replace(claim, state=InstanceState.ENDED, error=str(error), error_kind=kind)
        write_control(connection, application_id, ended)
        raise ConfigurationError(
            f"{instance!r} could not be launched ({error}): look at the run folder {deployment.run_dir!r} and at "
            f"{command[0]!r} on this host."
        ) from error
