"""Answers incidents: decides who takes the failed tasks over, and publishes it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetAlias, Context

from airflow_provider.assets import answers as answers_asset
from airflow_provider.bases.arguments import parse_whole
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import from_plain, to_plain
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_answer import (
    FailoverAnswer,
    IncidentEvent,
    IncidentFinder,
    answer_incidents,
    wrong_now,
)
from airflow_provider.control.history.builder import failover_record
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import Incident, IncidentRecord
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.topics.publisher import AssignmentPublisher
    from airflow_provider.control.topics.view import ControlView


class FailOverOperator(ControlOperator):
    """The critical path of a failover in one task: read, decide, publish.

    The incidents are those of the asset events that started the run. A run that was started by hand answers what is
    wrong now; when `instance` is named and nothing is wrong with it, everything is moved off it.

    For each incident, in one Kafka transaction: the next generation, and the record that says why. The publisher is
    fenced, so of two runs one wins, and the other reads again and finds the incident answered. An event of an incident
    that was answered before is skipped, so running this again is harmless; a task that was held for want of an
    instance is decided about again when there is one. A run that was started by hand decides about everything that is
    still wrong.

    An `AssetAlias` among the task's outlets gets an event of `airflow_provider.assets.answers` where something was
    answered, which starts the repair DAG. At the end each answer gets an open record in the application's history, if
    that can be written within two seconds; otherwise there is a warning.

    Args:
        application_id: the application; events of others are not looked at.
        instance: for a run that was started by hand: only this instance.
        num_standby_replicas: for a run that was started by hand: wanted standbys per task.
        kwargs: see `ControlOperator`.

    Returns:
        A list with a `FailoverAnswer`, as plain values, for each incident that this run answered.

    Raises:
        AssignmentError: the assignment topic holds none, or one that cannot be read.
        FencedError: other publishers took over again and again.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance", "num_standby_replicas")

    def __init__(
        self,
        *,
        application_id: str,
        instance: str | None = None,
        num_standby_replicas: int = 1,
        retries: int = 5,
        retry_delay: timedelta = timedelta(seconds=2),
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, retries=retries, retry_delay=retry_delay, **kwargs)
        self.instance = instance
        self.num_standby_replicas = num_standby_replicas

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Answer every incident."""
        began = time.monotonic()
        events = self._events(context)
        answered = self.publish_by(
            lambda publisher: self._answer(publisher, events, str(context["run_id"])), look=not events
        )
        took_ms = round((time.monotonic() - began) * 1000)
        self.log.info("%d incident(s) answered in %d ms", len(answered), took_ms)
        answers = [FailoverAnswer.of(record, after, took_ms) for record, after in answered]
        plain = [to_plain(answer) for answer in answers]
        for outlet in self.outlets if plain else ():
            if isinstance(outlet, AssetAlias):
                context["outlet_events"][outlet].add(answers_asset(self.application_id), extra={"answers": plain})
        self.show_outcome(context, "; ".join(answer.line() for answer in answers) or "nothing was left to answer")
        try:
            self.note_history([failover_record(record) for record, _ in answered if record.resolved_at_ms is None])
        except Exception:  # whatever it is: the failover is done
            self.log.warning("The failover is not in the history", exc_info=True)
        return plain

    def _events(self, context: Context) -> tuple[IncidentEvent, ...]:
        """Those of the `IncidentTrigger` that started this run, each incident once."""
        found: dict[str, IncidentEvent] = {}
        for event in itertools.chain.from_iterable(context["triggering_asset_events"].values()):
            payload = event.extra.get("payload")
            if isinstance(payload, dict) and payload.get("application_id") == self.application_id:
                incident = from_plain(payload, IncidentEvent)
                found.setdefault(incident.incident.id, incident)
        return tuple(found.values())

    def _answer(
        self, publisher: AssignmentPublisher, events: Sequence[IncidentEvent], run_id: str
    ) -> list[tuple[IncidentRecord, Assignment]]:
        if events:
            incidents: Sequence[Incident] = [event.incident for event in events]
            timeouts, standbys = events[0].timeouts, events[0].num_standby_replicas
        else:
            timeouts = self.timeouts
            incidents = self._found(publisher.view, timeouts)
            standbys = parse_whole("num_standby_replicas", self.num_standby_replicas)
        finder = IncidentFinder(
            answered_by=run_id,
            dag_id=self.dag_id,
            timeouts=timeouts,
            num_standby_replicas=standbys,
            by_hand=not events,
            events=tuple(events),
        )
        return list(answer_incidents(publisher.view, incidents, finder, publisher.publish, now_ms))

    def _found(self, view: ControlView, timeouts: Timeouts) -> tuple[Incident, ...]:
        """What is wrong now, for a run that was started by hand."""
        found = detect(view.assignment, view.statuses, view.silent_for_s, timeouts, view.heard_at_ms)
        return wrong_now(view, found, self.instance)
