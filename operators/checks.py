"""Checks: whether what is promised is kept, and whether a drill may begin."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.bases.arguments import parse_mapping, parse_optional, parse_texts, parse_whole
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.drills.blackout import blackout_at, parse_blackouts
from airflow_provider.control.drills.readiness import readiness_problems
from airflow_provider.control.failover.open_problems import watch_problem
from airflow_provider.control.history.builder import note_history, skipped_drill_record
from airflow_provider.control.outlook.losses import HOUR_MS, recent_losses
from airflow_provider.control.outlook.metrics_forecasts import MetricsForecasts, metrics_forecasts
from airflow_provider.control.outlook.predicted_rto import predict_rto, rto_basis
from airflow_provider.control.outlook.slo import Slo, drill_overdue, missed_ahead, missed_promises
from airflow_provider.control.records.drill_fault import DrillKind, parse_drill_kind
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.incident import SILENT_AFTER_S
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import InstanceError, TopicMissingError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.operators.control import (
    ControlLineageOperator,
    ControlOperator,
    failover_dag_problem,
    skip_before_deployment,
)

_HISTORY_MS: Final = 180 * 86_400_000
"""What is older says little of today's application."""


class CheckSloOperator(ControlLineageOperator):
    """Fails, with figures, when an application does not keep what it promises.

    Besides the limits: every task runs on a living instance without an error and has its warm standbys, no incident is
    open, and failures are watched for. It listens until each instance has sent a heartbeat, for ``instance_timeout_s``
    at most, and until the watcher has, for ten seconds at most.

    What a failure of each task's active instance would cost now (see
    `airflow_provider.control.outlook.predicted_rto`) is logged, and is a missed promise where it is beyond
    ``rto_s`` by what failovers on record took. So is what the application's metrics say of its future (see
    `airflow_provider.control.outlook.metrics_forecasts`): it is logged, and a missed promise where one of the three
    limits for it is set. Too few records miss no promise.

    Args:
        num_standby_replicas: how many warm standbys a task must have.
        slo: what is promised: a `Slo`, or its limits by name; `absence_s` is `CheckTopicsOperator`'s to look at.
        failover_dag_id: the DAG that answers its failures, which must not be paused; None does not ask.
        failover_asset: the name of the asset whose events start that DAG, which must be active; None does not ask.
        deploy_dag_id: the DAG that deploys the application; before its first assignment this task is then skipped, and
            names that DAG. None fails.

    Returns:
        ``generation`` of the assignment, how many ``instances`` and ``tasks`` were looked at, by task
        ``predicted_rto_ms``, None where it is not known, and ``forecasts``: of ``disks`` by instance, ``growths`` and
        ``replays`` by task.

    Raises:
        InstanceError: something is not as promised; a line for each.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields,
        "num_standby_replicas",
        "slo",
        "failover_dag_id",
        "failover_asset",
        "deploy_dag_id",
    )

    def __init__(
        self,
        *,
        application_id: str,
        num_standby_replicas: int = 1,
        slo: Slo | Mapping[str, Any] | str | None = None,
        failover_dag_id: str | None = None,
        failover_asset: str | None = None,
        deploy_dag_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.num_standby_replicas = num_standby_replicas
        self.slo = slo.limits if isinstance(slo, Slo) else slo
        self.failover_dag_id = failover_dag_id
        self.failover_asset = failover_asset
        self.deploy_dag_id = deploy_dag_id

    def execute(self, context: Context) -> dict[str, Any]:
        skip_before_deployment(self.hook, self.application_id, self.deploy_dag_id)
        given = parse_mapping("slo", self.slo)
        slo = Slo.parse({name: parse_optional(limit) for name, limit in given.items()})
        view, silent_for_s, unwatched = self._listen()
        standbys = parse_whole("num_standby_replicas", self.num_standby_replicas)
        history = self._history(slo.drill_age_s)
        alive = [name for name in view.healthy(self.timeouts) if not silent_for_s.get(name)]
        predicted = predict_rto(view, history, alive, self.timeouts)
        self.log.info("Predicted RTO:%s", "".join(f"\n  {one}" for one in predicted.values()) or " of no task")
        dag_id = parse_optional(self.failover_dag_id)
        unanswered = (
            None if dag_id is None else failover_dag_problem(context, dag_id, parse_optional(self.failover_asset))
        )
        overdue = None if slo.drill_age_s is None else drill_overdue(history, slo.drill_age_s, now_ms())
        missed = [line for line in (unwatched, unanswered, overdue) if line is not None]
        metrics = self._metrics()
        losses = recent_losses(metrics, view.statuses, now_ms(), HOUR_MS)
        missed += missed_promises(view, slo, standbys, silent_for_s, self.timeouts, predicted.values(), losses)
        forecasts = self._forecasts(view, slo, history, metrics)
        self.log.info("Ahead:%s", "".join(f"\n  {line}" for line in forecasts.lines()) or " no metrics are kept")
        missed += missed_ahead(self.application_id, forecasts, slo, standbys)
        if missed or view.assignment is None:
            lines = "".join(f"\n  - {line}" for line in missed)
            raise InstanceError(f"{self.application_id!r} does not keep what it promises:{lines}")
        answer = {
            "generation": view.assignment.generation,
            "instances": len(view.assignment.instances),
            "tasks": len(view.assignment.tasks),
            "predicted_rto_ms": {str(task): one.total_ms for task, one in predicted.items()},
            "forecasts": to_plain(forecasts),
        }
        self.log.info("All is as promised: %s", answer)
        return answer

    def _metrics(self) -> Sequence[MetricsRecord]:
        try:
            return self.hook.read_metrics(self.application_id)
        except TopicMissingError as error:
            self.log.warning("Nothing is forecast, and what was left out of late is not known: %s", error)
            return ()

    def _forecasts(
        self, view: ControlView, slo: Slo, history: Sequence[HistoryRecord], metrics: Sequence[MetricsRecord]
    ) -> MetricsForecasts:
        return metrics_forecasts(
            metrics,
            now_ms(),
            instances=view.assignment.instances if view.assignment else (),
            min_free_bytes=slo.disk_free_bytes,
            max_rto_s=slo.replay_rto_s or slo.rto_s,
            basis=rto_basis(history, view.statuses, self.timeouts),
        )

    def _history(self, drill_age_s: float | None) -> tuple[HistoryRecord, ...]:
        age_ms = max(_HISTORY_MS, int(1000 * (drill_age_s or 0)))
        try:
            return self.hook.read_history(self.application_id, since=now_ms() - age_ms)
        except TopicMissingError as error:
            self.log.warning("Predicted by defaults: %s", error)
            return ()

    def _listen(self) -> tuple[ControlView, dict[str, float], str | None]:
        """What the topics hold, for how long each instance was silent meanwhile, what is wrong with the watching."""
        begun = time.monotonic()
        with self.hook.reader(self.application_id) as reader:
            view = reader.read_to_end()
            names = view.assignment.instances if view.assignment else ()
            silent = reader.listen(lambda: names, self.timeouts.instance_s)
            waited_s = time.monotonic() - begun
            silent_for_s = {name: waited_s if name in silent else 0.0 for name in names}
            heard = reader.listen_for_watcher(SILENT_AFTER_S)
            return view, silent_for_s, watch_problem(self.application_id, view.watcher, heard=heard)


log = structlog.get_logger(__name__)


class CheckDrillReadinessOperator(ControlOperator):
    """Refuses a drill of an application whose failures are not answered, or that has one that is not repaired yet.

    It refuses too where a disk could not take the worst case of the drill's kind (`control.records.drill_fault.Room`):
    stores that are restored afresh beside those that are kept.

    It listens until the application's watcher says that it watches, for ten seconds at most. That every task has its
    warm standbys is `StandbyLagSensor`'s to say.

    Args:
        failover_dag_id: the DAG that answers its failures, which must not be paused; None does not ask. A DAG that was
            paused within the last half minute may still be watched.
        failover_asset: the name of the asset whose events start that DAG, which must be active; None does not ask.
        instance: the one that is to fail; None for the one with the most active tasks.

    Returns:
        The `Watcher` as plain values.

    Raises:
        InstanceError: the application is not watched, its failover DAG is paused or its asset not active, an incident
            is open or has no answer, or a disk is too small, or there is none that the drill could hit; a line each.
        ConfigurationError: there is no such kind.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields,
        "failover_dag_id",
        "failover_asset",
        "instance",
        "kind",
    )

    def __init__(
        self,
        *,
        application_id: str,
        failover_dag_id: str | None = None,
        failover_asset: str | None = None,
        instance: str | None = None,
        kind: str = DrillKind.CRASH.value,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.failover_dag_id = failover_dag_id
        self.failover_asset = failover_asset
        self.instance = instance
        self.kind = kind

    def execute(self, context: Context) -> dict[str, Any]:
        with self.hook.reader(self.application_id) as reader:
            view = reader.read_to_end()
            heard = reader.listen_for_watcher(SILENT_AFTER_S)
        dag_id = parse_optional(self.failover_dag_id)
        of_dag = None if dag_id is None else failover_dag_problem(context, dag_id, parse_optional(self.failover_asset))
        kind, instance = parse_drill_kind(self.kind), parse_optional(self.instance)
        found = (of_dag, *readiness_problems(view, kind, instance, self.timeouts, heard=heard))
        if problems := [line for line in found if line is not None]:
            lines = "".join(f"\n  - {line}" for line in problems)
            raise InstanceError(f"{self.application_id!r} is not ready for a drill, so nothing was done:{lines}")
        watcher: dict[str, Any] = to_plain(view.watcher)
        self.log.info("Watched by process %s on %s", watcher["pid"], watcher["host"])
        return watcher


class CheckBlackoutOperator(ControlOperator):
    """Skips itself, and so what lies behind it, where no drill is to begin now. A drill that has begun goes on.

    The history gets a record of it, once a run: a drill that was skipped, with the reason.

    Args:
        blackout: the times in which none begins, such as ``["mon-fri 08:00-18:00 Europe/Vienna", "sat,sun"]`` (see
            `control.drills.blackout.Blackout.parse`); as text with semicolons between them, too. None for none.
        kind: of the drill, for that record.

    Raises:
        ConfigurationError: a time cannot be read, or there is no such kind.
        AirflowSkipException: it is one of them now; says which.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "blackout", "kind")

    def __init__(
        self,
        *,
        application_id: str,
        blackout: Sequence[str] | str | None = None,
        kind: str = DrillKind.CRASH.value,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.blackout = blackout
        self.kind = kind

    def execute(self, context: Context) -> None:
        given = parse_optional(self.blackout)
        blackouts = () if given is None else parse_blackouts(parse_texts("blackout", given))
        if (why := blackout_at(blackouts, datetime.fromtimestamp(now_ms() / 1000, UTC))) is not None:
            self.note_history([_skipped_drill(context, self.application_id, self.kind, why)])
            raise AirflowSkipException(f"{self.application_id}: {why}.")


def _skipped_drill(context: Mapping[str, Any], application_id: str, kind: str, why: str) -> HistoryRecord:
    """The one record that a run has of a drill that did not begin."""
    run_id = str(context["run_id"])
    id = f"{context['ti'].dag_id}/{run_id}/skipped"
    return skipped_drill_record(application_id, id, run_id, parse_drill_kind(kind), reason=why, at_ms=now_ms())


@dataclass(frozen=True)
class SkippedDrillNote:
    """Called by Airflow when a task before a drill's fault has failed for good (``on_failure_callback``).

    Where the run injected its fault, the drill has its own record, and nothing is noted.

    Args:
        kind: of the drill; may be a template.
    """

    kind: str

    def __call__(self, context: Mapping[str, Any]) -> None:
        """Note it."""
        task = context["task"]
        hook = KafkaStreamsHook(task.kafka_conn_id)
        faults = hook.read(task.application_id).faults
        if any(fault.startswith(f"{context['ti'].dag_id}/{context['run_id']}/") for fault in faults):
            return
        why = f"{task.task_id}: {context.get('exception') or 'failed'}"
        record = _skipped_drill(context, task.application_id, task.render_template(self.kind, context), why)
        note_history(hook.write_history, task.application_id, [record], warn=log.warning)
