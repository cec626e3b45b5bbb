"""Deploys an instance of an application with spark-submit."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow.sdk import Context

from airflow_provider.control.command import CommandKind
from airflow_provider.control.conditions import InstanceEnded, InstanceRunning
from airflow_provider.control.deployment import Deployment
from airflow_provider.control.observation import Observation
from airflow_provider.control.status import InstanceState, InstanceStatus
from airflow_provider.errors import ConfigurationError, InstanceError
from airflow_provider.names import check_name
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.publisher import AssignmentPublisher
    from airflow_provider.control.view import ControlView
    from airflow_provider.streaming.launcher import Launched

__all__ = ["DeployInstanceOperator"]

_TAIL_BYTES: Final = 4000


class DeployInstanceOperator(ControlOperator):
    """Starts an instance, or attaches to the one that lives, and waits without holding a worker.

    The instance outlives the task: it ends only when it is asked to, when it fails, or with its host. Running this
    again attaches to what runs already, so a retry, a cleared task and two DAGs at once start it once: a launch is
    claimed in the status topic by a fenced write before the process is started.

    A person who ends or clears the waiting task asks the instance to stop. A restart of the triggerer, a deadline
    and the task's own end never do.

    Args:
        application_id: the application that the job's file names.
        instance: the instance's name, the same over restarts.
        application: path of the job's file on the worker; None deploys the instance as it was deployed last.
        state_dir: folder for its stores, kept over restarts, of this instance alone.
        run_dir: folder under which every launch gets one of its own for its log and scratch.
        until: ``"running"`` ends with a handle once the instance is up; ``"ended"`` lasts as long as the instance:
            it succeeds on its goodbye and fails when it ends without one or is not heard of.
        spark_conn_id: connection of Spark, with a local master or in client mode.
        conf: Spark settings. ``spark.jars`` or ``spark.jars.packages`` here replace the default Kafka connector.
        application_args: arguments of the job's file.
        env_vars: environment of the job; nothing secret, it is kept in Kafka.
        deadline_s: for ``until="ended"``: how long it may live, in seconds; None for ever.
        kwargs: see `ControlOperator`.

    Returns:
        A handle: ``application_id``, ``instance``, ``incarnation``, ``pid``, ``host``, ``log_file``.

    Raises:
        ConfigurationError: an argument or a connection is wrong, or no deployment is on record.
        InstanceError: the instance ended while it started, or later without a goodbye.
        DeadlineError: it did not start in time.
        TopicMissingError: the application has no control topics yet.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields, "instance", "application", "state_dir", "run_dir", "spark_conn_id", "conf",
        "application_args", "env_vars",
    )  # fmt: skip

    def __init__(
        self,
        *,
        application_id: str,
        instance: str,
        application: str | None = None,
        state_dir: str | None = None,
        run_dir: str | None = None,
        until: Literal["running", "ended"] = "running",
        spark_conn_id: str = "spark_default",
        conf: Mapping[str, str] | None = None,
        application_args: Sequence[str] = (),
        env_vars: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, deadline_s=deadline_s, **kwargs)
        if until not in ("running", "ended"):
            raise ConfigurationError(f"until is {until!r}: use 'running' or 'ended'.")
        self.instance = instance
        self.application = application
        self.state_dir = state_dir
        self.run_dir = run_dir
        self.until = until
        self.spark_conn_id = spark_conn_id
        self.conf = conf
        self.application_args = application_args
        self.env_vars = env_vars

    def execute(self, context: Context) -> dict[str, Any]:
        """Attach or launch, then wait."""
        check_name("instance", self.instance)
        self._await_goodbye()
        incarnation = self.publish_by(self._attach_or_launch)
        end_with = {"instance": self.instance, "incarnation": incarnation}
        if self.until == "ended":
            self.wait_for(InstanceEnded(self.instance, incarnation), stop_on_kill=end_with)
        self.deadline_s = float(self.start_timeout_s)
        self.wait_for(InstanceRunning(self.instance, incarnation), stop_on_kill=end_with)

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the handle; show the end of the log when the instance ended."""
        try:
            handle: dict[str, Any] = super().execute_complete(context, event)
        except InstanceError:
            self._show_log()
            raise
        return handle

    def _attach_or_launch(self, publisher: AssignmentPublisher) -> int:
        """The living incarnation, or a new one. Whoever is fenced meanwhile reads again and finds the other's."""
        living = self._living(publisher.view)
        if living is None:
            return self._launch(publisher)
        self.log.info("Attached to incarnation %d, which is %s", living.incarnation, living.state.value)
        return living.incarnation

    def _living(self, view: ControlView) -> InstanceStatus | None:
        status = view.statuses.get(self.instance)
        if status is None or not status.state.alive:
            return None
        # One look cannot tell whether a lone instance is silent: listen for its next heartbeat.
        observation = Observation(
            view,
            view.silent_for_s,
            instance_timeout_s=float(self.instance_timeout_s),
            start_timeout_s=float(self.start_timeout_s),
        )
        if observation.living(self.instance) is None:
            return None
        if status.state is InstanceState.STARTING:
            age_s = time.time() - status.incarnation / 1000
            return status if age_s < float(self.start_timeout_s) else None
        return self._hear(view.heard_at_ms[self.instance])

    def _hear(self, since_ms: int) -> InstanceStatus | None:
        """The instance's status once it is newer than `since_ms`; None when it stays silent or ends."""
        deadline = time.monotonic() + float(self.instance_timeout_s)
        with self.hook.reader(self.application_id) as reader:
            view = reader.read_to_end()
            while view.heard_at_ms.get(self.instance, 0) <= since_ms and time.monotonic() < deadline:
                reader.poll(0.1)
            status = view.statuses.get(self.instance)
            heard = view.heard_at_ms.get(self.instance, 0) > since_ms
            return status if heard and status is not None and status.state.alive else None

    def _await_goodbye(self, timeout_s: float = 20.0) -> None:
        """Let an instance that was asked to stop end first: its stores are locked until then."""
        deadline = time.monotonic() + timeout_s
        with self.hook.reader(self.application_id) as reader:
            view = reader.read_to_end()
            while self._is_stopping(view) and time.monotonic() < deadline:
                reader.poll(0.2)

    def _is_stopping(self, view: ControlView) -> bool:
        status, command = view.statuses.get(self.instance), view.commands.get(self.instance)
        if status is None or not status.state.alive:
            return False
        if status.state is InstanceState.STOPPING:
            return True
        asked = command is not None and command.kind is CommandKind.STOP
        return asked and command is not None and command.incarnation == status.incarnation

    def _launch(self, publisher: AssignmentPublisher) -> int:
        from airflow_provider.hooks.spark_instance import SparkInstanceHook
        from airflow_provider.streaming.launcher import launch
        from airflow_provider.streaming.settings import InstanceSettings

        deployment = self._deployment(publisher.view)
        known = publisher.view.statuses.get(self.instance)
        incarnation = max(time.time_ns() // 1_000_000, known.incarnation + 1 if known else 0)
        settings = InstanceSettings(
            self.application_id,
            self.instance,
            incarnation,
            deployment.state_dir,
            str(Path(deployment.run_dir) / f"{self.application_id}-{self.instance}-{incarnation}"),
            self.hook.connection,
        )
        spark = SparkInstanceHook(
            deployment.spark_conn_id,
            conf=deployment.conf,
            name=f"{self.application_id} {self.instance}",
            application_args=deployment.application_args,
            env_vars=deployment.env_vars,
        )
        command = spark.command(deployment.application)
        claim = InstanceStatus(
            self.application_id,
            self.instance,
            incarnation,
            InstanceState.STARTING,
            state_dir=deployment.state_dir,
            sent_at_ms=incarnation,
        )
        publisher.publish(None, deployment, claim)
        try:
            launched: Launched = launch(settings, command, spark.environment)
        except OSError as error:
            # The claim must not be taken for a process that starts.
            self.hook.write(
                self.application_id, dataclasses.replace(claim, state=InstanceState.ENDED, error=str(error))
            )
            raise ConfigurationError(
                f"{self.instance!r} could not be launched ({error}): look at 'run_dir' {deployment.run_dir!r} and at "
                f"{command[0]!r} on this worker."
            ) from error
        self.log.info("Launched incarnation %d; its log: %s", incarnation, launched.log_file)
        return incarnation

    def _deployment(self, view: ControlView) -> Deployment:
        if self.application is None:
            recorded = view.deployments.get(self.instance)
            if recorded is None:
                raise ConfigurationError(
                    f"No deployment of {self.instance!r} of {self.application_id!r} is on record: name the job's file "
                    "in 'application', its 'state_dir' and its 'run_dir'."
                )
            return recorded
        if not self.state_dir or not self.run_dir:
            raise ConfigurationError(
                f"{self.instance!r} needs a 'state_dir' and a 'run_dir', found {self.state_dir!r} and "
                f"{self.run_dir!r}: name folders on the worker's local disk."
            )
        if not Path(self.application).is_file():
            raise ConfigurationError(f"There is no job's file {self.application!r} on this worker: mend 'application'.")
        return Deployment(
            self.application_id,
            self.instance,
            self.application,
            self.kafka_conn_id,
            self.spark_conn_id,
            self.state_dir,
            self.run_dir,
            {key: str(value) for key, value in (self.conf or {}).items()},
            tuple(map(str, self.application_args)),
            {key: str(value) for key, value in (self.env_vars or {}).items()},
        )

    def _show_log(self) -> None:
        """The end of the instance's log, when it lies on this host."""
        deployment = self.hook.read(self.application_id).deployments.get(self.instance)
        if deployment is None:
            return
        logs = Path(deployment.run_dir).glob(f"{self.application_id}-{self.instance}-*/instance.log")
        newest = max(logs, key=lambda path: path.stat().st_mtime, default=None)
        if newest is not None:
            with newest.open("rb") as file:
                file.seek(max(0, newest.stat().st_size - _TAIL_BYTES))
                self.log.error("The end of %s:\n%s", newest, file.read().decode("utf-8", "replace"))
