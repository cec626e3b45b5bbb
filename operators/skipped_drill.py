"""Notes in the history that a run's drill did not begin, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from airflow_provider.common.clock import now_ms
from airflow_provider.control.drill_fault import parse_drill_kind
from airflow_provider.control.history.builder import skipped_drill_record
from airflow_provider.control.history.note import note_history
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook

__all__ = ["SkippedDrillNote", "skipped_drill_id"]

log = structlog.get_logger(__name__)


def skipped_drill_id(context: Mapping[str, Any]) -> str:
    """The id of the one record that a run has of a drill that did not begin."""
    return f"{context['ti'].dag_id}/{context['run_id']}/skipped"


@dataclass(frozen=True)
class SkippedDrillNote:
    """Called by Airflow when a task before a drill's fault has failed for good (``on_failure_callback``).

    Where the run injected its fault, the drill has a record of its own, and nothing is noted.

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
