"""``failover``: answers what is wrong now, once, as the failover DAG's task does; closes what is repaired."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Final

from airflow_provider.cli.options import (
    add_application_options,
    add_seconds,
    add_start_timeout,
    check_instance,
    cluster_of,
    command_id,
)
from airflow_provider.cli.terminal import ExitStatus, note, say, say_waiting
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_answer import (
    FailoverAnswer,
    IncidentEvent,
    IncidentFinder,
    Publish,
    answer_incidents,
    wrong_now,
)
from airflow_provider.control.history.builder import failover_record, resolve_incident
from airflow_provider.control.overview.watches import expected_instances
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publisher import AssignmentPublisher, publish_by
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.topics.writer import write_control
from airflow_provider.control.waiting.condition_wait import wait_for
from airflow_provider.control.waiting.evaluation import Outcome
from airflow_provider.control.waiting.standby import StandbysWarm
from airflow_provider.kafka.connection import KafkaConnection

_LATE_S: Final = 0.5
"""For a heartbeat on its way."""


def add_failover(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``failover``."""
    failover = commands.add_parser(
        "failover", help="answer what is wrong now, once; exits with 3 where a task could not be moved"
    )
    add_application_options(failover)
    failover.add_argument(
        "--instance", metavar="INSTANCE", help="only this one; everything is moved off it where nothing is wrong"
    )
    failover.add_argument("--standbys", type=int, default=1, metavar="N", help="of each task (%(default)d)")
    failover.add_argument("--dry-run", action="store_true", help="only say what would be decided")
    add_seconds(failover, "--instance-timeout", Timeouts.instance_s, "silence that counts as an instance's end")
    add_start_timeout(failover)
    add_seconds(failover, "--wait", 0.0, "until every task is whole again, and mark what is answered as resolved")
    failover.add_argument("--json", action="store_true", help="for programs")
    failover.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    cluster, timeouts = cluster_of(asked), Timeouts(instance_s=asked.instance_timeout, start_s=asked.start_timeout)
    with ControlReader(cluster, asked.application_id) as reader:
        events = find_incidents(reader, timeouts, asked.instance)
        view = reader.view
    finder = IncidentFinder(
        answered_by=command_id(),
        timeouts=timeouts,
        num_standby_replicas=max(0, asked.standbys),
        by_hand=True,
        events=events,
    )
    if asked.dry_run:
        answers = answer_found(view, finder, lambda *_: None)
    else:
        answers = publish_answers(cluster, asked.application_id, finder)
    if asked.json:
        print(json.dumps([to_plain(answer) for answer in answers], indent=2))
    else:
        print(answers_text(answers, dry_run=asked.dry_run))
    sys.stdout.flush()
    if asked.wait > 0.0 and not asked.dry_run:
        close_incidents(cluster, asked.application_id, finder.num_standby_replicas, asked.wait)
    return ExitStatus.NO if any(map(unmoved, answers)) else ExitStatus.FINE


def find_incidents(reader: ControlReader, timeouts: Timeouts, instance: str | None = None) -> tuple[IncidentEvent, ...]:
    """What is wrong, after every living instance had the time to send a heartbeat."""
    view, began = reader.read_to_end(), time.monotonic()
    check_instance(view, instance)
    expected, before = expected_instances(view, timeouts), dict(view.heard_at_ms)
    reader.listen(lambda: expected, timeouts.instance_s + _LATE_S)
    reader.read_to_end()  # the brokers answer, so what was not heard was not sent
    unheard = {name for name in expected if view.heard_at_ms.get(name) == before.get(name)}
    listened_s = time.monotonic() - began
    silent_for_s = {
        **view.silent_for_s,
        **dict.fromkeys(expected, 0.0),
        **{name: max(listened_s, view.silent_for_s[name]) for name in unheard},
    }
    found = detect(view.assignment, view.statuses, silent_for_s, timeouts, view.heard_at_ms)
    silent = {name: view.heard_at_ms.get(name, 0) for name in unheard}
    return tuple(
        IncidentEvent(
            incident=incident,
            application_id=view.application_id,
            kafka_conn_id="",
            detected_at_ms=now_ms(),
            silent=silent,
        )
        for incident in wrong_now(view, found, instance)
    )


def answer_found(view: ControlView, finder: IncidentFinder, publish: Publish) -> list[FailoverAnswer]:
    """Answer what the finder knows (`answer_incidents`), as values for people and programs."""
    answered = answer_incidents(view, [event.incident for event in finder.events], finder, publish, now_ms)
    return [FailoverAnswer.of(record, after) for record, after in answered]


def unmoved(answer: FailoverAnswer) -> bool:
    """Whether a task of the incident has no instance, or stays where it failed."""
    stays = not answer.kind.of_instance and answer.instance in answer.moved.values()
    return stays or None in answer.moved.values()


def answers_text(answers: Sequence[FailoverAnswer], *, dry_run: bool) -> str:
    """Lines for people."""
    if not answers:
        return "nothing is wrong that a failover could answer"
    lines = ["a dry run: nothing is published"] if dry_run else []
    for answer in answers:
        lines.append(f"{answer.incident_id}: {answer.kind.value}, {answer.evidence}")
        lines += [f"  {line}" for line in answer.decisions or ("no task is moved",)]
        lines.append(f"  generation {answer.generation}")
    return "\n".join(lines)


def publish_answers(cluster: KafkaConnection, application_id: str, finder: IncidentFinder) -> list[FailoverAnswer]:
    """Answer what was found, once however many others answer; an open record of each answer goes into the history."""
    if not finder.events:
        return []
    published: list[IncidentRecord] = []

    def act(publisher: AssignmentPublisher) -> list[FailoverAnswer]:
        published.clear()

        def publish(assignment: Assignment | None, record: IncidentRecord) -> None:
            publisher.publish(assignment, record)
            published.append(record)

        return answer_found(publisher.view, finder, publish)

    answers = publish_by(cluster, application_id, act)
    note(cluster, application_id, *map(failover_record, published))
    return answers


def close_incidents(cluster: KafkaConnection, application_id: str, num_standby_replicas: int, timeout_s: float) -> None:
    """Wait until every task is whole again, where incidents are open, and mark those resolved; says what it does.

    Nothing is waited for that only another step brings: standbys that are not assigned.
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
    """Mark one as resolved, in the assignment topic and in the history (`resolve_incident`)."""
    resolve_incident(
        record,
        view,
        at_ms=now_ms(),
        note=lambda history: note(cluster, view.application_id, history),
        write=lambda resolved: write_control(cluster, view.application_id, resolved),
    )


def not_assigned(view: ControlView, num_standby_replicas: int) -> str | None:
    """Which tasks were not given what they need, in one line; None where all were."""
    given = view.assignment.tasks.items() if view.assignment else ()
    bare = [str(task_id) for task_id, task in given if task.active is None]
    short = [str(task_id) for task_id, task in given if task.active and len(task.standbys) < num_standby_replicas]
    lines = [f"no instance has task(s) {', '.join(bare)}"] if bare else []
    lines += [f"task(s) {', '.join(short)} lack standbys, and need another instance"] if short else []
    return "; ".join(lines) or None


def _read(cluster: KafkaConnection, application_id: str) -> ControlView:
    with ControlReader(cluster, application_id) as reader:
        return reader.read_to_end()
