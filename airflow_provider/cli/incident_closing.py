"""Marking what was answered as resolved, once it is repaired: what the repair DAG does at its end."""

from __future__ import annotations

from airflow_provider.cli.history_note import note
from airflow_provider.cli.waiting import say, say_waiting
from airflow_provider.common.clock import now_ms
from airflow_provider.control.history.builder import resolve_incident
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.topics.writer import write_control
from airflow_provider.control.waiting.condition_wait import wait_for
from airflow_provider.control.waiting.conditions import Outcome, StandbysWarm
from airflow_provider.kafka.connection import KafkaConnection


def close_incidents(cluster: KafkaConnection, application_id: str, num_standby_replicas: int, timeout_s: float) -> None:
    """Wait until every task is whole again, where incidents are open, and mark those resolved; says what it does.

    Nothing is waited for that only another step brings: standbys that are not assigned.

    Args:
        num_standby_replicas: how many warm standbys a task must have.
        timeout_s: how long to wait at most.

    Raises:
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """
    view = _read(cluster, application_id)
    open_ids = [record.incident.id for record in view.unresolved_incidents]
    if not open_ids or view.assignment is None:
        return
    why = not_assigned(view, num_standby_replicas)
    if why is None:
        warm = StandbysWarm(num_standby_replicas=num_standby_replicas, generation=view.assignment.generation)
        found = wait_for(cluster, application_id, warm, timeout_s=timeout_s, say=say_waiting)
        why = None if found.outcome is Outcome.MET else found.seen
    if why is not None:
        say(f"not resolved yet: {', '.join(open_ids)}: {why}. Run 'assign' once that is fixed.")
        return
    view = _read(cluster, application_id)
    for id in open_ids:
        if (record := view.incidents.get(id)) is not None:
            close_incident(cluster, record, view)
            say(f"resolved: {id}")


def close_incident(cluster: KafkaConnection, record: IncidentRecord, view: ControlView) -> None:
    """Mark one as resolved, in the assignment topic and in the history (`resolve_incident`).

    Args:
        record: what was done about it.

    Raises:
        BrokerUnreachableError: it was not stored in time.
    """
    resolve_incident(
        record,
        view,
        at_ms=now_ms(),
        note=lambda history: note(cluster, view.application_id, history),
        write=lambda resolved: write_control(cluster, view.application_id, resolved),
    )


def not_assigned(view: ControlView, num_standby_replicas: int) -> str | None:
    """Which tasks were not given what they need, in one line; None where all were.

    Args:
        num_standby_replicas: how many standbys a task must have.
    """
    given = view.assignment.tasks.items() if view.assignment else ()
    bare = [str(task_id) for task_id, task in given if task.active is None]
    short = [str(task_id) for task_id, task in given if task.active and len(task.standbys) < num_standby_replicas]
    lines = [f"no instance has task(s) {', '.join(bare)}"] if bare else []
    lines += [f"task(s) {', '.join(short)} lack standbys, and need another instance"] if short else []
    return "; ".join(lines) or None


def _read(cluster: KafkaConnection, application_id: str) -> ControlView:
    with ControlReader(cluster, application_id) as reader:
        return reader.read_to_end()
