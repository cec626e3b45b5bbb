"""Starting an instance once, however many want to: a launch is claimed by a fenced write before the process starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from airflow_provider.common.clock import now_ms
from airflow_provider.control.deployment import Deployment
from airflow_provider.control.liveness import Liveness, Timeouts, liveness, may_be_starting
from airflow_provider.control.publisher import AssignmentPublisher
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.status import DiskStatus, InstanceState, InstanceStatus
from airflow_provider.control.view import ControlView
from airflow_provider.control.writer import write_control
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.launcher import Launched, launch

__all__ = ["Started", "living_instance", "start_instance"]


@dataclasses.dataclass(frozen=True)
class Started:
    """A process that was started.

    Args:
        incarnation: of the instance.
        launched: where it runs and logs.
    """

    incarnation: int
    launched: Launched


def living_instance(
    view: ControlView, instance: str, timeouts: Timeouts, open_reader: Callable[[], ControlReader]
) -> InstanceStatus | None:
    """The status of an instance that lives or may be starting; None where one can be started.

    Args:
        view: the newest.
        instance: its name.
        timeouts: how long it may be silent.
        open_reader: opens a reader of the application. One look cannot tell whether a lone instance is silent, so its
            next heartbeat is listened for.
    """
    status = view.statuses.get(instance)
    if status is None or liveness(status, view.silent_for_s.get(instance, 0.0), timeouts) is not Liveness.ALIVE:
        return None
    if status.state is InstanceState.STARTING:
        return status if may_be_starting(status, now_ms(), timeouts) else None
    with open_reader() as reader:
        newest = reader.read_to_end()
        silent = reader.listen(lambda: (instance,), timeouts.instance_s, {instance: view.heard_at_ms[instance]})
        heard = newest.statuses.get(instance)
        return heard if not silent and heard is not None and heard.state.alive else None


def start_instance(
    publisher: AssignmentPublisher,
    connection: KafkaConnection,
    deployment: Deployment,
    command: Sequence[str],
    environment: Mapping[str, str],
) -> Started:
    """Claim the launch of an instance, and launch it.

    Args:
        publisher: has read that no process of it lives.
        connection: the cluster.
        deployment: how it is deployed; published with the claim.
        command: spark-submit with its arguments.
        environment: added to that of the command.

    Raises:
        FencedError: a newer publisher exists. Nothing was started.
        ConfigurationError: it could not be launched here.
    """
    known = publisher.view.statuses.get(deployment.instance)
    incarnation = max(now_ms(), known.incarnation + 1 if known else 0)
    application_id, instance = deployment.application_id, deployment.instance
    settings = InstanceSettings(
        application_id=application_id,
        instance=instance,
        incarnation=incarnation,
        state_dir=deployment.state_dir,
        run_dir=str(Path(deployment.run_dir).expanduser() / f"{application_id}-{instance}-{incarnation}"),
        connection=connection,
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
    )
    publisher.publish(None, deployment, claim)
    try:
        return Started(incarnation, launch(settings, command, environment))
    except (OSError, ConfigurationError) as error:
        # The claim must not be taken for a process that starts.
        write_control(
            connection, application_id, dataclasses.replace(claim, state=InstanceState.ENDED, error=str(error))
        )
        raise ConfigurationError(
            f"{instance!r} could not be launched ({error}): look at the run folder {deployment.run_dir!r} and at "
            f"{command[0]!r} on this host."
        ) from error
