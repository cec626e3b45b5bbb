"""``failover``: answers what is wrong now, once, as the failover DAG's task does."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Final

from airflow_provider.cli.cluster import add_application_options, cluster_of
from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.cli.history_note import note
from airflow_provider.cli.incident_closing import close_incidents
from airflow_provider.cli.instances_expected import expected_instances
from airflow_provider.cli.named_instance import check_instance
from airflow_provider.cli.start_timeout_option import add_start_timeout
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
from airflow_provider.control.history.builder import failover_record
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publisher import AssignmentPublisher, publish_by
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
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
    failover.add_argument(
        "--instance-timeout", type=float, default=Timeouts.instance_s, metavar="SECONDS",
        help="silence that counts as an instance's end (%(default)g)",
    )  # fmt: skip
    add_start_timeout(failover)
    failover.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS",
        help="until every task is whole again, and mark what is answered as resolved (%(default)g)",
    )  # fmt: skip
    failover.add_argument("--json", action="store_true", help="for programs")
    failover.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    cluster, timeouts = cluster_of(asked), Timeouts(instance_s=asked.instance_timeout, start_s=asked.start_timeout)
    with ControlReader(cluster, asked.application_id) as reader:
        events = find_incidents(reader, timeouts, asked.instance)
        view = reader.view
    finder = IncidentFinder(
        answered_by=f"command-line-{time.time_ns()}",
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
    """What is wrong, after every living instance had the time to send a heartbeat.

    Args:
        timeouts: by which an instance counts as gone, and a task as standing still.
        instance: only this one; None for all.

    Raises:
        InstanceError: there is no such instance.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """
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
    """Lines for people.

    Args:
        answers: one for each incident.
        dry_run: whether nothing was published.
    """
    if not answers:
        return "nothing is wrong that a failover could answer"
    lines = ["a dry run: nothing is published"] if dry_run else []
    for answer in answers:
        lines.append(f"{answer.incident_id}: {answer.kind.value}, {answer.evidence}")
        lines += [f"  {line}" for line in answer.decisions or ("no task is moved",)]
        lines.append(f"  generation {answer.generation}")
    return "\n".join(lines)


def publish_answers(cluster: KafkaConnection, application_id: str, finder: IncidentFinder) -> list[FailoverAnswer]:
    """Answer what was found, once however many others answer, and leave an open record of each answer in the history.

    Args:
        finder: what was found, and who answers.

    Raises:
        AssignmentError: the assignment topic holds none that could be changed.
        FencedError: other publishers took over again and again.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """
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
