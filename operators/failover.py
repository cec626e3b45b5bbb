"""Answers incidents: decides who takes the failed tasks over, and publishes it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk import Context

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.failover import decide
from airflow_provider.control.incident import Incident, IncidentKind, IncidentRecord, detect
from airflow_provider.control.status import InstanceState
from airflow_provider.errors import ConfigurationError
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.publisher import AssignmentPublisher
    from airflow_provider.control.view import ControlView

__all__ = ["FailOverOperator"]


@dataclass(frozen=True)
class _Case:
    """One application's incidents and what their finder knew; none when they have yet to be looked for."""

    application_id: str
    kafka_conn_id: str
    instance_timeout_s: float
    num_standby_replicas: int
    incidents: tuple[Incident, ...] = ()
    detected_at_ms: dict[str, int] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()


class FailOverOperator(ControlOperator):
    """The critical path of a failover in one task: read, decide, publish.

    The incidents are those of the asset events that started the run, several at once too. A run that was started by
    hand answers what is wrong with `application_id` now; when `instance` is named and nothing is wrong with it,
    everything is moved off it.

    For each incident, in one Kafka transaction: the next generation, and the record that says why. The publisher is
    fenced, so of two runs one wins, and the other reads again and finds the incident answered. An incident that was
    answered before is passed over, so running this again is harmless.

    Args:
        application_id: for a run that was started by hand: the application.
        instance: for a run that was started by hand: only this instance.
        num_standby_replicas: for a run that was started by hand: wanted standbys a task.
        kwargs: see `ControlOperator`.

    Returns:
        A list with an entry for each incident that this run answered: ``application_id``, ``kafka_conn_id``,
        ``instance``, ``incident_id``, ``kind``, ``evidence``, ``tasks``, ``decisions`` (lines), ``moved`` (task to
        instance), ``generation``, ``failed_at_ms``, ``detected_at_ms``, ``decided_at_ms``, ``replace`` (whether the
        instance is gone and needs a replacement), ``num_standby_replicas``, ``took_ms``.

    Raises:
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
        answers: list[dict[str, Any]] = []
        for case in self._cases(context):
            answers += self._answer(case, str(context["run_id"]))
        took_ms = round((time.monotonic() - began) * 1000)
        for answer in answers:
            answer["took_ms"] = took_ms
        self.log.info("%d incident(s) answered in %d ms", len(answers), took_ms)
        return answers

    def _cases(self, context: Context) -> Sequence[_Case]:
        cases: dict[tuple[str, str], _Case] = {}
        for payload in _payloads(context):
            incident = msgspec.convert(payload["incident"], type=Incident)
            key = (payload["application_id"], payload["kafka_conn_id"])
            case = cases.get(key) or _Case(*key, payload["instance_timeout_s"], payload["num_standby_replicas"])
            if incident not in case.incidents:
                cases[key] = _with(case, incident, payload)
        if cases:
            return list(cases.values())
        if not self.application_id:
            raise ConfigurationError(
                "No asset event started this run, and it names no application: give 'application_id' when you start "
                "it by hand."
            )
        return [
            _Case(
                self.application_id,
                self.kafka_conn_id,
                float(self.instance_timeout_s),
                int(self.num_standby_replicas),
            )
        ]

    def _answer(self, case: _Case, run_id: str) -> list[dict[str, Any]]:
        def answer(publisher: AssignmentPublisher) -> list[dict[str, Any]]:
            incidents = case.incidents or self._found(publisher.view, case)
            answers = [self._answer_one(publisher, case, incident, run_id) for incident in incidents]
            return [answer for answer in answers if answer is not None]

        return self.publish_by(answer, case.application_id, case.kafka_conn_id)

    def _answer_one(
        self, publisher: AssignmentPublisher, case: _Case, incident: Incident, run_id: str
    ) -> dict[str, Any] | None:
        view = publisher.view
        known = view.incidents.get(incident.id)
        if view.assignment is None:
            return None
        if known is not None and known.answered_by == run_id:
            return _told(case, known, view.assignment)  # an earlier try of this task
        if known is not None and incident.kind is not IncidentKind.BY_HAND:
            self.log.info("Incident %s was answered by %s already", incident.id, known.answered_by)
            return None
        gone = {i.instance for i in case.incidents if i.kind is not IncidentKind.TASK_FAILED} | case.silent
        healthy = [name for name in view.healthy(case.instance_timeout_s) if name not in gone]
        # One that starts cannot take over yet, but it is better than nobody.
        healthy = [n for n in healthy if view.statuses[n].state is InstanceState.RUNNING] or healthy
        plan = decide(
            incident, view.assignment, view.statuses, healthy, case.num_standby_replicas, answered=view.incidents
        )
        if plan.assignment is None and not plan.decisions:
            self.log.info("Incident %s is not open any more", incident.id)
            return None
        record = IncidentRecord(
            incident,
            run_id,
            case.detected_at_ms.get(incident.id),
            time.time_ns() // 1_000_000,
            (plan.assignment or view.assignment).generation,
            tuple(map(str, plan.decisions)),
            failed_at_ms=view.heard_at_ms.get(incident.instance),
        )
        publisher.publish(plan.assignment, record)
        view.incidents[incident.id] = record
        self.log.info("Incident %s (%s): %s", incident.id, incident.evidence, "; ".join(record.decisions) or "no task")
        return _told(case, record, plan.assignment or view.assignment)

    def _found(self, view: ControlView, case: _Case) -> tuple[Incident, ...]:
        """What is wrong now, for a run that was started by hand."""
        found = detect(view.assignment, view.statuses, view.silent_for_s, case.instance_timeout_s)
        if not self.instance:
            return found
        named = tuple(incident for incident in found if incident.instance == self.instance)
        if named or view.assignment is None or self.instance not in view.assignment.instances:
            return named
        status = view.statuses.get(self.instance)
        tasks = view.assignment.active_on(self.instance)
        incarnation = status.incarnation if status else 0
        evidence = "nothing is wrong with it: moved by hand"
        return (Incident(case.application_id, IncidentKind.BY_HAND, self.instance, incarnation, tasks, evidence),)


def _payloads(context: Context) -> Iterator[dict[str, Any]]:
    """The payloads of the `IncidentTrigger`s whose events started this run."""
    for events in context["triggering_asset_events"].values():
        for event in events:
            payload = event.extra.get("payload")
            if isinstance(payload, dict) and "incident" in payload:
                yield payload


def _with(case: _Case, incident: Incident, payload: dict[str, Any]) -> _Case:
    return _Case(
        case.application_id,
        case.kafka_conn_id,
        case.instance_timeout_s,
        case.num_standby_replicas,
        (*case.incidents, incident),
        {**case.detected_at_ms, incident.id: payload["detected_at_ms"]},
        case.silent | frozenset(payload["silent"]),
    )


def _told(case: _Case, record: IncidentRecord, assignment: Assignment) -> dict[str, Any]:
    incident = record.incident
    return {
        "application_id": case.application_id,
        "kafka_conn_id": case.kafka_conn_id,
        "instance": incident.instance,
        "incident_id": incident.id,
        "kind": incident.kind.value,
        "evidence": incident.evidence,
        "tasks": list(incident.tasks),
        "decisions": list(record.decisions),
        "moved": {str(task): assignment.tasks[task].active for task in incident.tasks},
        "generation": record.generation,
        "failed_at_ms": record.failed_at_ms,
        "detected_at_ms": record.detected_at_ms,
        "decided_at_ms": record.decided_at_ms,
        "replace": incident.kind in (IncidentKind.INSTANCE_ENDED, IncidentKind.HEARTBEAT_MISSED),
        "num_standby_replicas": case.num_standby_replicas,
    }
