"""What keeps a drill from beginning: its blackout times, or an application that is not ready; and the note of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.bases.arguments import parse_optional, parse_texts
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.drills.blackout import blackout_at, parse_blackouts
from airflow_provider.control.drills.readiness import readiness_problems
from airflow_provider.control.history.builder import note_history, skipped_drill_record
from airflow_provider.control.records.drill_fault import DrillKind, parse_drill_kind
from airflow_provider.control.records.incident import SILENT_AFTER_S
from airflow_provider.errors import InstanceError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.failover_dag import failover_dag_problem

log = structlog.get_logger(__name__)


class CheckDrillReadinessOperator(ControlOperator):
    """Refuses a drill of an application whose failures are not answered, or that has one that is not repaired yet.

    It refuses too where a disk could not take the worst case of the drill's kind (`control.drill_fault.Room`): stores
    that are restored afresh beside those that are kept.

    It listens until the application's watcher says that it watches, for ten seconds at most. That every task has its
    warm standbys is `StandbyLagSensor`'s to say.

    Args:
        failover_dag_id: the DAG that answers its failures, which must not be paused; None does not ask. A DAG that was
            paused within the last half minute may still be watched.
        failover_asset: the name of the asset whose events start that DAG, which must be active; None does not ask.
        instance: the one that is to fail; None for the one with the most active tasks.
        kwargs: see `ControlOperator`.

    Returns:
        The `Watcher` as plain values.

    Raises:
        InstanceError: the application is not watched, its failover DAG is paused or its asset not active, an incident
            is open or has no answer, or a disk is too small, or there is none that the drill could hit; a line each.
        ConfigurationError: there is no such kind.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
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
        """Look and listen."""
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
        kwargs: see `ControlOperator`.

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
        """Look at the clock."""
        given = parse_optional(self.blackout)
        blackouts = () if given is None else parse_blackouts(parse_texts("blackout", given))
        if (why := blackout_at(blackouts, datetime.fromtimestamp(now_ms() / 1000, UTC))) is not None:
            self._note(context, why)
            raise AirflowSkipException(f"{self.application_id}: {why}.")

    def _note(self, context: Context, why: str) -> None:
        record = skipped_drill_record(
            self.application_id,
            skipped_drill_id(context),
            str(context["run_id"]),
            parse_drill_kind(self.kind),
            reason=why,
            at_ms=now_ms(),
        )
        self.note_history([record])


def skipped_drill_id(context: Mapping[str, Any]) -> str:
    """The id of the one record that a run has of a drill that did not begin."""
    return f"{context['ti'].dag_id}/{context['run_id']}/skipped"


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
        record = skipped_drill_record(
            task.application_id,
            skipped_drill_id(context),
            str(context["run_id"]),
            parse_drill_kind(task.render_template(self.kind, context)),
            reason=f"{task.task_id}: {context.get('exception') or 'failed'}",
            at_ms=now_ms(),
        )
        note_history(hook.write_history, task.application_id, [record], warn=log.warning)
