"""What a repair is given and reports, and all that an application went through."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.bases.arguments import parse_if_given, parse_optional, parse_seconds, parse_whole
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import from_plain, to_plain
from airflow_provider.control.failover.incident_answer import FailoverAnswer
from airflow_provider.control.history.builder import resolve_incident
from airflow_provider.control.history.report import FailoverReport, history_table, report
from airflow_provider.control.records.history import HistoryKind, history_plain
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError, InstanceError
from airflow_provider.links import FailoverRun, FailoverRunLink
from airflow_provider.operators.control import ControlOperator


class ListRepairsOperator(ControlOperator):
    """Lists a repair for each incident that was answered and is not resolved.

    The incidents are those of the failover runs whose events started this run. A run that was started by hand takes
    every unresolved one.

    Args:
        instance: for a run that was started by hand: only this instance.

    Returns:
        For each incident a mapping: ``incident_id``, its ``instance``, and whether that is gone, to ``replace`` it.

    Raises:
        TopicMissingError: the application has no control topics.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance")

    def __init__(self, *, application_id: str, instance: str | None = None, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.instance = instance

    def execute(self, context: Context) -> list[dict[str, Any]]:
        answers = [
            from_plain(plain, FailoverAnswer)
            for events in context["triggering_asset_events"].values()
            for event in events
            for plain in event.extra.get("answers", ())
        ] or self._unresolved()
        repairs = {
            answer.incident_id: {
                "incident_id": answer.incident_id,
                "instance": answer.instance,
                "replace": answer.replace,
            }
            for answer in answers
        }
        for repair in repairs.values():
            self.log.info("To repair: %s (%s)", repair["instance"], repair["incident_id"])
        return list(repairs.values())

    def _unresolved(self) -> list[FailoverAnswer]:
        view = self.hook.read(self.application_id)
        return [
            FailoverAnswer.of(record, view.assignment)
            for record in view.unresolved_incidents
            if view.assignment is not None and (not self.instance or record.incident.instance == self.instance)
        ]


class ReportFailOverOperator(ControlOperator):
    """Marks incidents resolved, reports what their failovers cost, and completes their records in the history.

    A history that cannot be written is a warning; the incident is remembered in the assignment topic the longer.

    Args:
        incident_id: `Incident.id`, or several; with none of several the task is skipped.
        max_rto_s: the promised RTO in seconds, for the history; None where none is.

    Returns:
        The values of a `FailoverReport`; a list of them where several were named.

    Raises:
        InstanceError: there is no record of an incident; the others are reported before.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "incident_id", "max_rto_s")
    operator_extra_links = (FailoverRunLink(),)

    def __init__(
        self, *, application_id: str, incident_id: str | Sequence[str], max_rto_s: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.incident_id = incident_id
        self.max_rto_s = max_rto_s

    def execute(self, context: Context) -> dict[str, Any] | list[dict[str, Any]]:
        slo_rto_s = parse_if_given(parse_seconds, "max_rto_s", self.max_rto_s)
        ids = [self.incident_id] if isinstance(self.incident_id, str) else list(self.incident_id)
        if not ids:
            raise AirflowSkipException("No failover is to be reported.")
        view = self.hook.read(self.application_id)
        costs, lines = list[FailoverReport](), list[str]()
        for record in [view.incidents[id] for id in ids if id in view.incidents]:
            costs.append(self._report(record, view, slo_rto_s))
            lines.append(f"{record.incident.instance or 'all'} {record.incident.kind.value}: {costs[-1].line()}")
        self.show_outcome(context, "; ".join(lines))
        if unknown := [id for id in ids if id not in view.incidents]:
            raise InstanceError(
                f"Incident {', '.join(map(repr, unknown))} of {self.application_id!r} has no record: run the failover "
                "DAG first."
            )
        plain: list[dict[str, Any]] = [to_plain(cost) for cost in costs]
        return plain[0] if isinstance(self.incident_id, str) else plain

    def _report(self, record: IncidentRecord, view: ControlView, slo_rto_s: float | None) -> FailoverReport:
        self.linked_run = FailoverRun.of(record)
        record = resolve_incident(
            record,
            view,
            at_ms=now_ms(),
            note=lambda history: self.note_history([history]),
            write=lambda resolved: self.hook.write(self.application_id, resolved),
            slo_rto_s=slo_rto_s,
        )
        cost = report(record, view)
        self.log.info("Failover of %s\n%s", record.incident.instance, cost)
        return cost


class HistoryOperator(ControlOperator):
    """Logs the history of an application as a table, and returns it: drills, failovers, restores, upgrades.

    Args:
        since: only what began then or later, in ISO 8601; UTC where it names no zone. None for all.
        kind: only ``"drill"``, ``"failover"``, ``"restore"`` or ``"upgrade"``; None for all.
        limit: how many at most, the newest.

    Returns:
        A list of records as plain values, the oldest first; their fields are in ``docs/formats.md``.

    Raises:
        TopicMissingError: the application has no history.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "since", "kind", "limit")

    def __init__(
        self,
        *,
        application_id: str,
        since: str | None = None,
        kind: str | None = None,
        limit: int | str = 100,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.since = since
        self.kind = kind
        self.limit = limit

    def execute(self, context: Context) -> list[dict[str, Any]]:
        since, kind = parse_optional(self.since), parse_optional(self.kind)
        found = self.hook.read_history(
            self.application_id,
            since=None if since is None else _epoch_ms(since),
            kind=None if kind is None else _kind(kind),
        )
        shown = found[-parse_whole("limit", self.limit, minimum=1) :]
        self.log.info("%d of %d record(s) of %s\n%s", len(shown), len(found), self.application_id, history_table(shown))
        return [history_plain(record) for record in shown]


def _epoch_ms(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"since is {text!r}: use a time in ISO 8601, such as '2026-01-31T04:00:00+00:00'."
        ) from error
    return round(1000 * (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp())


def _kind(name: str) -> HistoryKind:
    try:
        return HistoryKind(name)
    except ValueError as error:
        kinds = ", ".join(repr(kind.value) for kind in HistoryKind)
        raise ConfigurationError(f"kind is {name!r}: use {kinds}.") from error
