"""What changes the assignment: tasks are given out, failures are answered, standbys promoted."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetAlias, Context

from airflow_provider.assets import answers as answers_asset
from airflow_provider.bases.arguments import parse_flag, parse_if_given, parse_names, parse_whole
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import from_plain, to_plain
from airflow_provider.common.task_id import TaskId, parse_tasks
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_answer import (
    FailoverAnswer,
    IncidentEvent,
    IncidentFinder,
    answer_incidents,
    wrong_now,
)
from airflow_provider.control.history.builder import failover_record
from airflow_provider.control.placement.moves import promote
from airflow_provider.control.placement.task_placement import TaskPlacement, place_tasks
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import Incident, IncidentRecord
from airflow_provider.control.topics.liveness import Timeouts, highest_generation
from airflow_provider.control.waiting.standby import StandbysWarm
from airflow_provider.control.waiting.task import TasksRunning
from airflow_provider.errors import AssignmentError
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.topics.publisher import AssignmentPublisher
    from airflow_provider.control.topics.view import ControlView


class AssignTasksOperator(ControlOperator):
    """Publishes the assignment that the living instances allow: the first one, or every task's standbys again.

    Sticky: what an instance has it keeps. With nothing to change, nothing is published. Copies of a task are kept on
    different hosts where there are several; where that cannot be, the log and the result say so.

    With `balance` it goes on, deferred, until the load is even: an instance with less gets further standbys, tasks move
    onto them once they are warm, then the copies that are too many go. A task has no fewer warm copies on the way, and
    pauses only while it moves. Ended in between, it goes on where it was when it runs again.

    Args:
        instances: who may have tasks, also one that is started later, of which the log warns; None takes every running
            instance, and takes nothing from one that is silent just now: whether that is gone, the failover's watcher
            finds out.
        num_standby_replicas: wanted standbys per task; fewer where there are not enough instances.
        store: of a job that was not described, by whose changelog the tasks are counted before the first assignment.
        balance: also even out the load, and wait until that is done, each step for ``timeout_s`` at most.
        reason: kept with the generation, for people.

    Returns:
        ``generation``, whether the last step ``changed`` anything, by task its ``active`` and ``standbys``, and
        ``on_one_host``: by task the host that has all of its copies, and ``not_running``: by instance that was named
        and has tasks although it does not run, why.

    Raises:
        InstanceError: with `balance`, a task failed.
        DeadlineError: with `balance`, copies were not warm in time; says which.
        AssignmentError: no instance runs.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields, "instances", "num_standby_replicas", "store", "balance", "reason"
    )  # fmt: skip

    def __init__(
        self,
        *,
        application_id: str,
        instances: Sequence[str] | str | None = None,
        num_standby_replicas: int = 1,
        store: str = "state",
        balance: bool | str = False,
        reason: str = "assigned by {{ run_id }}",
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.instances = instances
        self.num_standby_replicas = num_standby_replicas
        self.store = store
        self.balance = balance
        self.reason = reason

    def execute(self, context: Context) -> dict[str, Any]:
        answer = self.publish_by(self._publish)
        return self._wait_until_warm(answer) if parse_flag("balance", self.balance) else answer

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Publish the next step towards an even load, until there is none."""
        super().execute_complete(context, event)
        answer = self.publish_by(self._publish)
        return self._wait_until_warm(answer) if answer["changed"] else answer

    def _wait_until_warm(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        generation = answer["generation"]
        warm = StandbysWarm(num_standby_replicas=None, generation=generation)
        last: dict[str, Any] = self.wait_for(warm, step=f"generation {generation}")
        return last

    def _publish(self, publisher: AssignmentPublisher) -> dict[str, Any]:
        wanted = TaskPlacement(
            instances=parse_if_given(parse_names, "instances", self.instances),
            num_standby_replicas=parse_whole("num_standby_replicas", self.num_standby_replicas),
            balance=parse_flag("balance", self.balance),
            reason=self.reason,
        )
        placed = place_tasks(publisher, wanted, lambda: self.hook.tasks(self.application_id, self.store), self.timeouts)
        if placed.changed:
            self.log.info("Published generation %d", placed.assignment.generation)
        else:
            self.log.info("Generation %d needs no change", placed.assignment.generation)
        for warning in placed.warnings:
            self.log.warning("%s", warning)
        return placed.to_plain()


class FailOverOperator(ControlOperator):
    """A failover in one task: read, decide, publish.

    The incidents are those of the asset events that started the run. What their watcher has answered itself is taken up
    here; what it has not is answered here. A run that was started by hand answers what is wrong now; when `instance` is
    named and nothing is wrong with it, everything is moved off it.

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

    Returns:
        A list with a `FailoverAnswer`, as plain values, for each incident that this run answered or took up.

    Raises:
        AssignmentError: the assignment topic holds none, or one that cannot be read.
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


class PromoteStandbyOperator(ControlOperator):
    """Makes a standby the active one, and waits until it processes the tasks.

    The former active, when it lives, becomes a standby. A retry goes on waiting for what the first try published.

    Args:
        tasks: the task, such as ``0_3``, or several.
        to: the instance to promote; None takes each task's most caught-up healthy standby.

    Returns:
        ``generation`` and the ``active`` instance by task.

    Raises:
        AssignmentError: nothing is assigned yet, a task does not exist, or it has no healthy standby to promote.
        InstanceError: the task failed there, or a newer generation gave it to another.
        DeadlineError: it did not run in time.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "tasks", "to")

    def __init__(
        self,
        *,
        application_id: str,
        tasks: TaskId | str | Sequence[TaskId | str],
        to: str | None = None,
        timeout_s: float | None = 120.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        self.tasks = tasks
        self.to = to

    def execute(self, context: Context) -> Any:
        tasks = parse_tasks(self.tasks)
        # It names the try's run, so that a retry knows its own generation again.
        reason = f"promotion of task(s) {', '.join(map(str, tasks))} by {context['run_id']}/{self.task_id}"
        generation = self.publish_by(lambda publisher: self._publish(publisher, tasks, reason))
        return self.wait_for(TasksRunning(tasks, self.to or None, generation))

    def _publish(self, publisher: AssignmentPublisher, tasks: tuple[TaskId, ...], reason: str) -> int:
        view = publisher.view
        if view.assignment is None:
            raise AssignmentError(
                f"Nothing of {self.application_id!r} is assigned yet: assign its tasks before promoting any."
            )
        if view.assignment.reason == reason:
            return view.assignment.generation
        healthy = view.healthy(self.timeouts)
        after = promote(view.assignment, view.statuses, healthy, tasks, self.to or None)
        following = view.assignment.next(after, reason, highest_generation(view.statuses.values()))
        publisher.publish(following)
        self.log.info("Published generation %d: %s", following.generation, reason)
        return following.generation
