"""Starting an instance from the command line: attached to where it lives, launched here otherwise."""

from __future__ import annotations

from pathlib import Path

from airflow_provider.cli.waiting import await_condition, say
from airflow_provider.common.files import file_end
from airflow_provider.control.records.deployment import Deployment, Placement
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publisher import AssignmentPublisher, publish_by
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.waiting.conditions import InstanceRunning
from airflow_provider.control.waiting.instance import await_shutdown
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

    Args:
        master: of Spark, such as ``local[4]``.
        timeouts: by which it is found to live.

    Returns:
        Its status where it lives, what was started otherwise.

    Raises:
        ConfigurationError: it lives and was deployed otherwise, unless a supervisor starts it, or cannot be launched
            here.
        FencedError: other publishers took over again and again.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
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
    """Wait until a process that was started is up; the end of its log goes to standard error where it does not.

    Args:
        timeouts: by which it is found to live, and how long its start may take.

    Raises:
        InstanceError: it ended while it started.
        DeadlineError: it did not start in time.
    """
    running = InstanceRunning(deployment.instance, started.incarnation)
    try:
        await_condition(cluster, deployment.application_id, running, timeouts.start_s, timeouts)
    except (InstanceError, DeadlineError):
        say(file_end(Path(started.launched.log_file), _TAIL_BYTES))
        raise


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
