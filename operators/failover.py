"""Answers incidents: decides who takes the failed tasks over, and publishes it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetAlias, Context

from airflow_provider.assets import ANSWERS, ANSWERS_ALIAS
from airflow_provider.assets import answers as answers_asset
from airflow_provider.bases.arguments import parse_whole
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import from_plain, to_plain
from airflow_provider.control.assignment import Assignment
from airflow_provider.control.detection import detect
from airflow_provider.control.failover_answer import FailoverAnswer
from airflow_provider.control.history.builder import failover_record
from airflow_provider.control.incident import Incident, IncidentRecord
from airflow_provider.control.incident_answer import IncidentFinder, answer_incidents, wrong_now
from airflow_provider.control.incident_event import IncidentEvent
from airflow_provider.control.liveness import Timeouts
from airflow_provider.errors import ConfigurationError
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.publisher import AssignmentPublisher
    from airflow_provider.control.view import ControlView

__all__ = ["FailOverOperator"]


@dataclass(frozen=True, kw_only=True)
class _Case:
    """One application's incidents and what their finder knew; none when they have yet to be looked for."""

    application_id: str
    kafka_conn_id: str
    timeouts: Timeouts
    num_standby_replicas: int
    events: tuple[IncidentEvent, ...] = ()

    def finder(self, dag_id: str, run_id: str) -> IncidentFinder:
        """As of this run."""
        return IncidentFinder(
            answered_by=run_id,
            dag_id=dag_id,
            timeouts=self.timeouts,
            num_standby_replicas=self.num_standby_replicas,
            by_hand=not self.events,
            events=self.events,
        )


_Answered = tuple[IncidentRecord, FailoverAnswer]


class FailOverOperator(ControlOperator):
    """The critical path of a failover in one task: read, decide, publish.

    The incidents are those of the asset events that started the run, several at once too. A run that was started by
    hand answers what is wrong with `application_id` now; when `instance` is named and nothing is wrong with it,
    everything is moved off it.

    For each incident, in one Kafka transaction: the next generation, and the record that says why. The publisher is
    fenced, so of two runs one wins, and the other reads again and finds the incident answered. An event of an incident
    that was answered before is skipped, so running this again is harmless; a task that was held for want of an
    instance is decided about again when there is one. A run that was started by hand decides about everything that is
    still wrong.

    Where the task has `ANSWERS_ALIAS` among its outlets, each application with answers gets an event of `ANSWERS`,
    which starts the repair DAG. When some applications of several could not be answered, the others are handed on, and
    the watcher fires again for the rest. At the end each answer gets an open record in the application's history, if
    that can be written within two seconds; otherwise there is a warning.

    Args:
        application_id: for a run that was started by hand: the application.
        instance: for a run that was started by hand: only this instance.
        num_standby_replicas: for a run that was started by hand: wanted standbys per task.
        kwargs: see `ControlOperator`.

    Returns:
        A list with a `FailoverAnswer`, as plain values, for each incident that this run answered.

    Raises:
        AssignmentError: the assignment topic holds none, or one that cannot be read.
        ConfigurationError: neither an event nor an application names what to answer.
        FencedError: other publishers took over again and again.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance", "num_standby_replicas")

    def __init__(
        self,
        *,
        application_id: str | None = None,
        instance: str | None = None,
        num_standby_replicas: int = 1,
        retries: int = 5,
        retry_delay: timedelta = timedelta(seconds=2),
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id or "", retries=retries, retry_delay=retry_delay, **kwargs)
        self.instance = instance
        self.num_standby_replicas = num_standby_replicas

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Answer every incident."""
        began = time.monotonic()
        answers = self._answer_all(self._cases(context), str(context["run_id"]))
        took_ms = round((time.monotonic() - began) * 1000)
        self.log.info("%d incident(s) answered in %d ms", len(answers), took_ms)
        plain = [to_plain(dataclasses.replace(answer, took_ms=took_ms)) for _, answer in answers]
        self._hand_on(context, plain)
        lines = [answer.line() for _, answer in answers]
        self.show_outcome(context, "; ".join(lines) or "nothing was left to answer")
        self._note([(answer, record) for record, answer in answers if record.resolved_at_ms is None])
        return plain

    def _note(self, answers: Sequence[tuple[FailoverAnswer, IncidentRecord]]) -> None:
        """Open records in the histories, each application by itself and at once; the repair's report completes them."""
        places = sorted({(answer.application_id, answer.kafka_conn_id) for answer, _ in answers})
        with ThreadPoolExecutor(max_workers=max(1, len(places))) as pool:
            for place in places:
                here = [record for answer, record in answers if (answer.application_id, answer.kafka_conn_id) == place]
                records = map(failover_record, here)  # made where no error can fail the failover
                pool.submit(self.note_history, records, *place)

    def _answer_all(self, cases: Sequence[_Case], run_id: str) -> list[_Answered]:
        """Each application by itself and at once: one whose brokers are away must not delay another."""
        with ThreadPoolExecutor(max_workers=len(cases)) as pool:
            asked = [pool.submit(self._answer, case, run_id) for case in cases]
        answers = [answer for future in asked if future.exception() is None for answer in future.result()]
        failed = [
            (case, error)
            for case, future in zip(cases, asked, strict=True)
            if (error := future.exception()) is not None
        ]
        for case, error in failed:
            self.log.error("%s could not be answered: %s: %s", case.application_id, type(error).__name__, error)
        if failed and not answers:
            raise failed[0][1]
        # What was answered is handed on now. For the rest the watcher fires again, and that run is red until it can.
        return answers

    def _hand_on(self, context: Context, plain: Sequence[Any]) -> None:
        """An event for each application, so that the redundancy is restored."""
        for application_id in sorted({answer["application_id"] for answer in plain}):
            answers = [answer for answer in plain if answer["application_id"] == application_id]
            for outlet in self.outlets:
                if isinstance(outlet, AssetAlias):
                    asset = ANSWERS if outlet == ANSWERS_ALIAS else answers_asset(application_id)
                    context["outlet_events"][outlet].add(asset, extra={"answers": answers})

    def _cases(self, context: Context) -> Sequence[_Case]:
        cases: dict[tuple[str, str], _Case] = {}
        for event in _events(context):
            key = (event.application_id, event.kafka_conn_id)
            case = cases.get(key) or _Case(
                application_id=event.application_id,
                kafka_conn_id=event.kafka_conn_id,
                timeouts=event.timeouts,
                num_standby_replicas=event.num_standby_replicas,
            )
            if event.incident not in [known.incident for known in case.events]:
                cases[key] = dataclasses.replace(case, events=(*case.events, event))
        if cases:
            return list(cases.values())
        if not self.application_id:
            raise ConfigurationError(
                "No asset event started this run, and it names no application: give 'application_id' when you start "
                "it by hand."
            )
        return [
            _Case(
                application_id=self.application_id,
                kafka_conn_id=self.kafka_conn_id,
                timeouts=self.timeouts,
                num_standby_replicas=parse_whole("num_standby_replicas", self.num_standby_replicas),
            )
        ]

    def _answer(self, case: _Case, run_id: str) -> list[_Answered]:
        def answer(publisher: AssignmentPublisher) -> list[_Answered]:
            incidents = [event.incident for event in case.events] or self._found(publisher.view, case)
            finder = case.finder(self.dag_id, run_id)
            answered = answer_incidents(publisher.view, incidents, finder, publisher.publish, now_ms)
            return [_answer_of(case, record, after) for record, after in answered]

        return self.publish_by(answer, case.application_id, case.kafka_conn_id, look=not case.events)

    def _found(self, view: ControlView, case: _Case) -> tuple[Incident, ...]:
        """What is wrong now, for a run that was started by hand."""
        found = detect(view.assignment, view.statuses, view.silent_for_s, case.timeouts, view.heard_at_ms)
        return wrong_now(view, found, self.instance)


def _events(context: Context) -> Iterator[IncidentEvent]:
    """Those of the `IncidentTrigger`s that started this run."""
    for events in context["triggering_asset_events"].values():
        for event in events:
            payload = event.extra.get("payload")
            if isinstance(payload, dict) and "incident" in payload:
                yield from_plain(payload, IncidentEvent)


def _answer_of(case: _Case, record: IncidentRecord, assignment: Assignment) -> _Answered:
    return record, FailoverAnswer.of(record, assignment, case.kafka_conn_id, case.num_standby_replicas)
