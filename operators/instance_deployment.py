"""Deploys an instance of an application with spark-submit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider import __version__
from airflow_provider.bases.arguments import parse_mapping, parse_whole
from airflow_provider.common.clock import now_ms
from airflow_provider.common.files import file_end
from airflow_provider.common.host_name import host_name
from airflow_provider.common.json_codec import from_plain
from airflow_provider.control.history.builder import upgrade_record
from airflow_provider.control.records.deployment import Deployment, InstanceHandle, Placement, parse_placement
from airflow_provider.control.records.history import HistoryKind
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.waiting.instance import InstanceEnded, InstanceRunning, SupervisedRunning, await_shutdown
from airflow_provider.error_decision import is_permanent
from airflow_provider.errors import ConfigurationError, InstanceError
from airflow_provider.kafka.names import check_name
from airflow_provider.launch.job_file import check_job_file, sha256_of
from airflow_provider.links import InstanceLogLink, SparkUiLink
from airflow_provider.operators.control import ControlLineageOperator
from airflow_provider.operators.supervised_instance import (
    RESTARTING,
    SupervisedInstance,
    living_of,
    report_of,
    restart_id,
    stop_for_restart,
)

if TYPE_CHECKING:
    from airflow_provider.control.topics.publisher import AssignmentPublisher
    from airflow_provider.control.topics.view import ControlView

_TAIL_BYTES: Final = 4000
_ON_CHANGE: Final = ("fail", "attach", "restart", "upgrade", "report")
_SHUTDOWN_S: Final = 20.0
_LOG_MIN_BYTES: Final = 1 << 20


class DeployInstanceOperator(ControlLineageOperator):
    """Starts an instance, or attaches to the one that lives, and waits until it is up, or as long as it lives.

    The instance outlives the task: it ends only when it is asked to, when it fails, or with its host. Running this
    again attaches to what runs already, so a retry, a cleared task and two DAGs at once start it once: a launch is
    claimed in the assignment topic by a fenced write before the process is started. A start that takes longer than it
    may fails the try, and is left alone: the next try attaches to it while its process lives on that worker's host, up
    to three times as long, and wherever it lives once it speaks.

    A restart because of a change leaves a record of an upgrade in the history, unless ``until`` is ``"ended"``.

    A person who ends or clears the waiting task asks the instance to stop. A restart of the triggerer, a deadline
    and the task's own end never do.

    Args:
        application_id: the application that the job file names.
        instance: the instance's name, the same over restarts.
        application: path of the job file on the worker; None deploys the instance as it was deployed last.
        state_dir: folder for its stores, kept over restarts, of this instance alone.
        run_dir: folder under which every launch gets its own for its log and scratch; ``~`` is the home of the
            worker's user. Nobody else may be able to write to it or to what lies above it: what is executed and the
            password lie there.
        until: ``"running"`` ends with a handle once the instance is up; ``"ended"`` lasts as long as the instance:
            it succeeds on its clean shutdown and fails when it ends otherwise or sends no heartbeat. It goes on with a
            replacement that took the name, and a cleared task starts the instance again.
        instance_kafka_conn_id: connection by which the instance reaches Kafka, for another user with fewer rights;
            None for `kafka_conn_id`.
        spark_conn_id: connection of Spark, with a local master or in client mode.
        conf: Spark settings. ``spark.jars`` or ``spark.jars.packages`` here replace the default Kafka connector.
        env_vars: environment of the job. `conf`, `application_args` and this are kept in Kafka, and the first two are
            seen in the host's list of processes: nothing secret in any of them. A job takes its secrets from a file of
            its host, or from the environment of the Airflow worker that starts it.
        on_change: what happens to a living instance that was deployed otherwise, its job file's content included:
            ``"fail"`` leaves it as it is and says what differs; ``"attach"`` leaves it without a word; ``"restart"``
            hands its tasks over, stops it and starts it as it is wanted now; ``"upgrade"`` does the same, but skips the
            task where the instance was stopped on purpose; ``"report"`` does nothing, and returns what differs.
        run_max_folders: how many folders of ended launches are kept in ``run_dir``.
        log_max_bytes: how long its log may become before a new one is begun, 1 MiB at the least; the older half is kept
            beside it.
        placement: ``"worker"`` launches it here; ``"supervised"`` launches nothing, and waits until the supervisor of
            its host has it running (`SupervisedInstance`); None as it was deployed last, on a worker at first.
        python: the job's own interpreter on the worker, for launcher, driver and workers: an upgrade of Airflow's
            environment then breaks no living job. This package and pyspark have to be installed there. None for
            Airflow's.
        timeout_s: for ``until="ended"``: how long it may live, in seconds; None without limit.

    Returns:
        A handle: ``application_id``, ``instance``, ``incarnation``, ``pid``, ``host``, ``log_file``, ``ui_url``. With
        ``"report"``: ``instance``, whether it ``runs``, and what is ``changed``.

    Raises:
        ConfigurationError: an argument or a connection is wrong, no deployment is on record, or the living instance was
            deployed otherwise.
        InstanceError: the instance ended while it started, or later without a clean shutdown, or it does not stop.
        AirflowFailException: it ended by an error that every try would meet: of the job file, a setting, a topic.
        DeadlineError: it did not start in time.
        TopicMissingError: the application has no control topics yet.
    """

    template_fields: Sequence[str] = (
        *ControlLineageOperator.template_fields, "instance", "application", "state_dir", "run_dir", "spark_conn_id",
        "conf", "application_args", "env_vars", "on_change", "run_max_folders", "log_max_bytes",
        "instance_kafka_conn_id", "placement", "python",
    )  # fmt: skip
    operator_extra_links = (InstanceLogLink(), SparkUiLink())

    _runs: bool = False
    """Whether what it attached to was up already; a start takes longer than a look."""

    def __init__(
        self,
        *,
        application_id: str,
        instance: str,
        application: str | None = None,
        state_dir: str | None = None,
        run_dir: str | None = None,
        until: Literal["running", "ended"] = "running",
        instance_kafka_conn_id: str | None = None,
        spark_conn_id: str = "spark_default",
        conf: Mapping[str, str] | str | None = None,
        application_args: Sequence[str] = (),
        env_vars: Mapping[str, str] | str | None = None,
        on_change: str = "fail",
        run_max_folders: int | str = Deployment.run_max_folders,
        log_max_bytes: int | str = Deployment.log_max_bytes,
        placement: str | None = None,
        python: str | None = None,
        timeout_s: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        if until not in ("running", "ended"):
            raise ConfigurationError(f"until is {until!r}: use 'running' or 'ended'.")
        self.wait_limit = "timeout_s" if until == "ended" else "start_timeout_s"
        self.instance = instance
        self.application = application
        self.state_dir = state_dir
        self.run_dir = run_dir
        self.until = until
        self.instance_kafka_conn_id = instance_kafka_conn_id
        self.spark_conn_id = spark_conn_id
        self.conf = conf
        self.application_args = application_args
        self.env_vars = env_vars
        self.on_change = on_change
        self.run_max_folders = run_max_folders
        self.log_max_bytes = log_max_bytes
        self.placement = placement
        self.python = python

    def execute(self, context: Context) -> Any:
        check_name("instance", self.instance)
        if self.on_change not in _ON_CHANGE:
            raise ConfigurationError(f"on_change is {self.on_change!r}: use {', '.join(map(repr, _ON_CHANGE))}.")
        if (supervised := self._supervised()) is not None:
            if self.on_change == "report":
                return self._say(context, supervised.report())
            incarnation = supervised.prepare(context)
            return self.wait_for(SupervisedRunning(self.instance, incarnation), step=str(incarnation))
        if self.on_change == "report":
            return self._say(context, self._report_changes())
        return self._start(context)

    def _say(self, context: Context, report: dict[str, Any]) -> dict[str, Any]:
        differs = f"differs: {', '.join(report['changed'])}" if report["changed"] else "nothing differs"
        self.show_outcome(context, f"{self.instance} {'runs' if report['runs'] else 'does not run'}, {differs}")
        return report

    def _supervised(self) -> SupervisedInstance | None:
        """What does the task's work where a supervisor keeps the instance; None where a worker launches it.

        Raises:
            ConfigurationError: there is no such placement, or the task is to last as long as the instance.
        """
        placement = self.placement
        if placement is None:
            recorded = self.hook.read(self.application_id).deployments.get(self.instance)
            placement = Placement.WORKER.value if recorded is None else recorded.placement
        if parse_placement(placement) is Placement.WORKER:
            return None
        if self.until == "ended":
            raise ConfigurationError(
                f"{self.instance!r} is kept by a supervisor, so no task stands for it: leave until='ended' out, and "
                "wait with InstanceStateSensor where you have to."
            )
        return SupervisedInstance(self, self.instance, self.application, self.on_change)

    def _start(self, context: Context) -> Any:
        self._await_shutdown()
        if self.on_change == "upgrade" and self._was_stopped(str(context["run_id"])):
            raise AirflowSkipException(f"{self.instance!r} does not run, so there is nothing to upgrade.")
        if self.on_change in RESTARTING:
            self._stop_if_changed(context)
        handle = self.linked_instance = self.publish_by(self._attach_or_launch, look=False)
        incarnation = handle.incarnation
        if self.until == "ended":
            ended = InstanceEnded(self.instance, incarnation, for_life=True)
            return self.wait_for(ended, stop_on_kill=handle, look=False)
        running = InstanceRunning(self.instance, incarnation)
        return self.wait_for(running, stop_on_kill=handle, step=str(incarnation), look=self._runs)

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            handle: dict[str, Any] = super().execute_complete(context, event)
        except InstanceError as error:
            self._end_upgrade(context, str(error))
            self._show_log()
            ended = self.hook.read(self.application_id).statuses.get(self.instance)
            self.linked_instance = InstanceHandle.of(ended) if ended is not None else None
            if ended is not None and ended.state is InstanceState.ENDED and is_permanent(ended.error_kind):
                # A try more would start Spark again, to end the same way.
                raise AirflowFailException(str(error)) from error
            raise
        self.linked_instance = from_plain(handle, InstanceHandle)
        if (supervised := self._supervised()) is not None:
            supervised.check(context)
        self._end_upgrade(context)
        return handle

    def _end_upgrade(self, context: Context, reason: str | None = None) -> None:
        if self.on_change in RESTARTING and self.until == "running":
            self.end_history(HistoryKind.UPGRADE, self.task_of_run(context), reason)

    def _attach_or_launch(self, publisher: AssignmentPublisher) -> InstanceHandle:
        """The living process, or a new one. A task that is fenced reads again and finds the other's."""
        view, changed = publisher.view, self._changed(publisher.view)
        # A start that takes too long is left to end, unless something else is to be started.
        replaces = bool(changed) and self.on_change in RESTARTING
        living = self._living(view) or (None if replaces else self._late_start(view))
        if living is None:
            self._say_why_again(view)
            return self._launch(publisher)
        if changed and self.on_change == "fail":
            raise ConfigurationError(
                f"{self.instance!r} lives and was deployed otherwise: {', '.join(changed)}. It was left as it is. Set "
                "on_change to 'restart' to restart it as wanted, or to 'attach' to leave it so."
            )
        if changed:
            self.log.warning("It was deployed otherwise: %s", ", ".join(changed))
        self.log.info("Attached to incarnation %d, which is %s", living.incarnation, living.state.value)
        self._runs = living.state is InstanceState.RUNNING
        return InstanceHandle.of(living)

    def _changed(self, view: ControlView) -> tuple[str, ...]:
        """What of the living instance's deployment is not as wanted."""
        recorded = view.deployments.get(self.instance)
        if self.application is None or recorded is None or not Path(self.application).is_file():
            return ()  # deployed as it was, or from a worker that has no job file to compare
        return recorded.differences(self._deployment(view))

    def _was_stopped(self, run_id: str) -> bool:
        """Whether it never ran, or was stopped by any other than this task, of which this may be a retry.

        No supervisor starts it again, so it does not matter whether a command or a signal stopped it.
        """
        status = self.hook.read(self.application_id).statuses.get(self.instance)
        if status is None:
            return True
        own = restart_id(self, run_id)
        ours = any(id_.startswith(own) for id_ in status.last_commands)
        return status.state is InstanceState.STOPPED and not ours

    def _report_changes(self) -> dict[str, Any]:
        view = self.hook.read(self.application_id)
        return report_of(self, self.instance, self._living(view), self._changed(view))

    def _stop_if_changed(self, context: Context) -> None:
        """Hand over and stop a living instance that was deployed otherwise."""
        run_id = str(context["run_id"])
        view = self.hook.read(self.application_id)
        living = self._living(view)
        changed = self._changed(view)
        if living is None or not changed:
            return
        self.log.info("Restarting it, because it was deployed otherwise: %s", ", ".join(changed))
        if self.until == "running":
            id_ = self.task_of_run(context)
            self.note_history([upgrade_record(self.application_id, id_, run_id, self.instance, changed, now_ms())])
        stop_for_restart(self, living, run_id)

    def _living(self, view: ControlView) -> InstanceStatus | None:
        return living_of(self, self.instance, view)

    def _late_start(self, view: ControlView) -> InstanceStatus | None:
        from airflow_provider.launch.instance_start import late_start

        return late_start(view, self.instance, self.timeouts, lambda: self.hook.reader(self.application_id))

    def _say_why_again(self, view: ControlView) -> None:
        from airflow_provider.launch.instance_start import reason_to_launch

        if (status := view.statuses.get(self.instance)) is not None:
            why = reason_to_launch(status, view.silent_for_s.get(self.instance, 0.0), self.timeouts)
            self.log.info("Launching it again: %s", why)

    def _await_shutdown(self) -> None:
        """Let an instance that was asked to stop end first: its stores are locked until then."""
        with self.hook.reader(self.application_id) as reader:
            reader.read_to_end()
            await_shutdown(reader, self.instance, _SHUTDOWN_S)

    def _launch(self, publisher: AssignmentPublisher) -> InstanceHandle:
        from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
        from airflow_provider.hooks.spark_instance import SparkInstanceHook
        from airflow_provider.launch.instance_start import start_instance
        from airflow_provider.launch.surroundings import check_python, surroundings_warning

        if (warning := surroundings_warning()) is not None:
            self.log.warning("%s", warning)
        deployment = self._deployment(publisher.view)
        check_python(deployment.python)
        spark = SparkInstanceHook(
            deployment.spark_conn_id,
            conf=deployment.conf,
            name=f"{self.application_id} {self.instance}",
            application_args=deployment.application_args,
            env_vars=deployment.env_vars,
            python=deployment.python,
        )
        command = spark.command(deployment.application)
        own = deployment.instance_kafka_conn_id
        connection = self.hook.connection if own is None else KafkaStreamsHook(own).connection
        started = start_instance(publisher, connection, deployment, command, spark.environment)
        self.log.info("Launched incarnation %d; its log: %s", started.incarnation, started.launched.log_file)
        return InstanceHandle(
            application_id=self.application_id,
            instance=self.instance,
            incarnation=started.incarnation,
            host=host_name(),
            log_file=started.launched.log_file,
        )

    def _deployment(self, view: ControlView) -> Deployment:
        if self.application is None:
            recorded = view.deployments.get(self.instance)
            if recorded is None:
                raise ConfigurationError(
                    f"No deployment of {self.instance!r} of {self.application_id!r} is on record: name the job file "
                    "in 'application', its 'state_dir' and its 'run_dir'."
                )
            return dataclasses.replace(recorded, job_sha256=sha256_of(recorded.application), version=__version__)
        if not self.state_dir or not self.run_dir:
            raise ConfigurationError(
                f"{self.instance!r} needs a 'state_dir' and a 'run_dir', found {self.state_dir!r} and "
                f"{self.run_dir!r}: name folders on the worker's local disk."
            )
        check_job_file(self.application, self.application_id)
        return Deployment(
            application_id=self.application_id,
            instance=self.instance,
            application=self.application,
            kafka_conn_id=self.kafka_conn_id,
            instance_kafka_conn_id=self.instance_kafka_conn_id or None,
            spark_conn_id=self.spark_conn_id,
            state_dir=self.state_dir,
            run_dir=self.run_dir,
            conf=parse_mapping("conf", self.conf),
            application_args=tuple(map(str, self.application_args)),
            env_vars=parse_mapping("env_vars", self.env_vars),
            job_sha256=sha256_of(self.application),
            run_max_folders=parse_whole("run_max_folders", self.run_max_folders, minimum=1),
            log_max_bytes=parse_whole("log_max_bytes", self.log_max_bytes, minimum=_LOG_MIN_BYTES),
            placement=Placement.WORKER.value,
            python=self.python or "",
            version=__version__,
        )

    def _show_log(self) -> None:
        """The end of the instance's log, when it lies on this host."""
        deployment = self.hook.read(self.application_id).deployments.get(self.instance)
        if deployment is None:
            return
        logs = Path(deployment.run_dir).expanduser().glob(f"{self.application_id}-{self.instance}-*/instance.log")
        newest = max(logs, key=lambda path: path.stat().st_mtime, default=None)
        if newest is not None:
            self.log.error("The end of %s:\n%s", newest, file_end(newest, _TAIL_BYTES))
