"""What a repair is given, asks a person and reports, and all that an application went through."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider.bases.arguments import parse_if_given, parse_optional, parse_seconds, parse_whole
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import from_plain
from airflow_provider.control.failover.failover_answer import FailoverAnswer
from airflow_provider.control.failover.open_problems import HeldTask, held_tasks
from airflow_provider.control.history.incident_resolution import resolve_incident
from airflow_provider.control.history.report import FailoverReport, report
from airflow_provider.control.history.table import history_table
from airflow_provider.control.records.history import HistoryKind, history_plain
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError, DeadlineError, InstanceError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.links import FailoverRun, FailoverRunLink
from airflow_provider.operators.control import ControlOperator


class ListRepairsOperator(ControlOperator):
    """Lists a repair for each incident that was answered and is not resolved.

    The incidents are those of the failover runs whose events started this run. A run that was started by hand takes
    every unresolved one.

    Args:
        instance: for a run that was started by hand: only this instance.
        kwargs: see `ControlOperator`.

    Returns:
        For each incident a mapping: ``incident_id``, its ``instance``, and whether that is gone, to ``replace`` it.

    Raises:
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance")

    def __init__(self, *, application_id: str, instance: str | None = None, **kwargs: Any) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.instance = instance

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Look into the events, or into the assignment topic."""
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
        kwargs: see `ControlOperator`.

    Returns:
        The values of a `FailoverReport`; a list of them where several were named.

    Raises:
        InstanceError: there is no record of an incident; the others are reported before.
        BrokerUnreachableError: no broker answered.
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
        """Mark and report."""
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
        return costs[0].to_plain() if isinstance(self.incident_id, str) else [cost.to_plain() for cost in costs]

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
        kwargs: see `ControlOperator`.

    Returns:
        A list of records as plain values, the oldest first; their fields are in ``docs/formats.md``.

    Raises:
        ConfigurationError: an argument is not what it has to be.
        TopicMissingError: the application has no history.
        BrokerUnreachableError: no broker answered.
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
        """Read and show."""
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


REPLAY: Final = "Replay them"
LEAVE: Final = "Leave them"

_ANSWER: Final = "answer"


class UnansweredError(DeadlineError, AirflowFailException):
    """A `DeadlineError`: nobody answered in time. There is no new try, which would ask the same again."""


class AskAboutHeldTasksOperator(HITLOperator):
    """Asks a person in Airflow's UI (*Required actions*) where tasks are held; is skipped where none is.

    A task is held where it failed for a reason that would meet it anywhere: a record that the job cannot process, a
    right that it lacks, a changed job. The question names each with its error. Waiting takes no worker and no
    triggerer (see https://airflow.apache.org/docs/apache-airflow/stable/tutorial/hitl.html).

    It is asked once, regardless of ``retries``: tries are for what goes wrong before it is asked, and for carrying an
    answer out, which they keep. A person who clears the task is asked anew. So is one whose answer was with a worker
    that was lost before it began: Airflow does not show a task what an earlier try was answered.

    Args:
        kafka_conn_id: its Kafka connection.
        notifiers: called with the task's context when the question is asked: Airflow's notifiers, or any callables. One
            that fails is a warning.
        execution_timeout: as of every operator: for the work of the task, not for a person's answer.
        kwargs: see `HITLOperator`, such as `assigned_users` and `response_timeout` (for ever).

    Returns:
        Arguments of a `ReplayChangelogOperator` for each instance that is to replay its held tasks: ``instance`` and
        ``tasks``. Empty where the person leaves them.

    Raises:
        UnansweredError: nobody answered within `response_timeout`. The tasks stay held.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = ("application_id", "kafka_conn_id", "subject")

    def __init__(
        self,
        *,
        application_id: str,
        kafka_conn_id: str = KafkaStreamsHook.default_conn_name,
        notifiers: Sequence[Callable[[Context], Any]] = (),
        execution_timeout: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            subject=f"Tasks of {application_id} are held",
            options=[REPLAY, LEAVE],
            notifiers=cast(Any, notifiers),
            execution_timeout=None,  # HITLOperator would take it for the time that a person has
            **kwargs,
        )
        self.execution_timeout = execution_timeout
        self.application_id = application_id
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> Any:
        """Ask, where there is something to be asked and nobody has answered yet."""
        if (answer := context["task_state_store"].get(_ANSWER)) is not None:
            return self._carry_out(context, str(answer))
        held = self._held()
        if not held:
            raise AirflowSkipException(f"No task of {self.application_id!r} is held.")
        self.body = _body(held)
        self.log.info("%s", self.body)
        self.notifiers = cast(Any, [functools.partial(self._notify, notifier) for notifier in self.notifiers])
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> list[dict[str, Any]]:
        """What is to be replayed, by what is held now: an answer may come days later."""
        try:
            (answer,) = super().execute_complete(context, event)["chosen_options"]
        except HITLTimeoutError as error:
            raise UnansweredError(
                f"Nobody said within {self.response_timeout} what to do with the held tasks of "
                f"{self.application_id!r}. They stay held; clear this task to be asked again."
            ) from error
        # First of all: a try that fails after this must not ask again.
        context["task_state_store"].set(_ANSWER, answer)
        return self._carry_out(context, answer)

    def _carry_out(self, context: Context, answer: str) -> list[dict[str, Any]]:
        by_instance = defaultdict[str, list[str]](list)
        for held in self._held() if answer == REPLAY else ():
            by_instance[held.instance].append(str(held.task))
        context["task_state_store"].delete(_ANSWER)
        return [{"instance": instance, "tasks": tasks} for instance, tasks in by_instance.items()]

    def _notify(self, notifier: Callable[[Context], Any], context: Context) -> None:
        try:
            notifier(context)
        except Exception as error:  # whatever it is: the question stands
            self.log.warning("The question is asked, but %r was not told: %s", notifier, error)

    def _held(self) -> tuple[HeldTask, ...]:
        return held_tasks(KafkaStreamsHook(self.kafka_conn_id).read(self.application_id))


def _body(held: Sequence[HeldTask]) -> str:
    lines = [f"- **{one.task}** on {one.instance}: {' '.join(one.error.split())}" for one in held]
    return (
        "These tasks failed for a reason that would meet them on any instance, so they stand still where they are. "
        f"Correct the cause first (docs/faults.md has a row for it), then choose *{REPLAY}*: their stores are restored "
        f"from their changelogs, and they go on where they stopped. *{LEAVE}* ends this run red.\n\n" + "\n".join(lines)
    )
