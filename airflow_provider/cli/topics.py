"""``topics verify`` and ``topics repair``: whether an application's topics are as it needs them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from airflow_provider.cli.cluster import add_application_options, cluster_of
from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.topic_repair import find_described_problems, find_topic_problems, repair_topic
from airflow_provider.control.view import ControlView
from airflow_provider.kafka.application_topics import refuse_those_of_others
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, check_name, status_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_findings import TopicFinding, WantedTopics

__all__ = ["add_topics", "findings_text"]


def add_topics(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``topics``."""
    topics = commands.add_parser(
        "topics", help="verify an application's topics, or repair them; exits with 3 where something differs"
    )
    topics.add_argument("action", choices=("verify", "repair"), help="repair only says what it would do")
    add_application_options(topics)
    topics.add_argument("--apply", action="store_true", help="of repair: do it")
    topics.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="TOPIC",
        help="what the job reads; default what the job file said when the topics were created",
    )
    topics.add_argument(
        "--output", action="append", default=[], metavar="TOPIC", help="a sink or a dead-letter topic of the job"
    )
    topics.add_argument("--store", action="append", metavar="NAME", help="of the job (state)")
    topics.add_argument(
        "--windowed-store", action="append", default=[], metavar="NAME", help="of the job, a store of windows"
    )
    topics.add_argument("--replication-factor", type=int, metavar="N", help="at least so many; else any is taken")
    topics.add_argument("--json", action="store_true", help="for programs")
    topics.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    cluster = cluster_of(asked)
    admin = TopicAdmin(cluster)
    stores = tuple(dict.fromkeys((*(asked.store or ()), *asked.windowed_store)))
    wanted = WantedTopics(
        application_id=asked.application_id,
        sources=tuple(asked.source),
        stores=tuple(check_name("store", name) for name in stores or ("state",)),
        windowed_stores=tuple(asked.windowed_store),
        outputs=tuple(asked.output),
        replication_factor=asked.replication_factor,
    )
    # What the job file said when the topics were created, unless the command line says it.
    view = None if asked.source or asked.output or stores else _described(cluster, admin, asked.application_id)

    def look() -> tuple[TopicFinding, ...]:
        if view is not None and view.job is not None:
            return find_described_problems(admin, view, view.job, asked.replication_factor)
        return find_topic_problems(cluster, admin, wanted)

    done: list[str] = []
    found = look()
    if asked.action == "repair" and asked.apply:
        own = wanted.stores if view is None or view.job is None else view.job.stores
        refuse_those_of_others(admin, asked.application_id, own)
        done = [repair_topic(admin, finding) for finding in found if finding.repair is not None]
        found = look()
    if asked.json:
        print(json.dumps({"done": done, "findings": [_to_json(finding) for finding in found]}, indent=2))
    else:
        print(findings_text(asked.application_id, found, done, dry_run=asked.action == "repair" and not asked.apply))
    return ExitStatus.NO if found else ExitStatus.FINE


def _described(cluster: KafkaConnection, admin: TopicAdmin, application_id: str) -> ControlView | None:
    """What the control topics hold of an application that was described; None of another one, or without them."""
    if any(admin.describe(topic(application_id)) is None for topic in (assignment_topic, status_topic)):
        return None
    with ControlReader(cluster, application_id) as reader:
        view = reader.read_to_end()
    return None if view.job is None else view


def findings_text(
    application_id: str, found: Sequence[TopicFinding], done: Sequence[str] = (), *, dry_run: bool = False
) -> str:
    """Lines for people.

    Args:
        application_id: the application.
        found: what is wrong now.
        done: what was repaired before that.
        dry_run: whether to say what a repair would do.
    """
    lines = [f"done: {line}" for line in done]
    for finding in found:
        lines += [finding.problem, f"  fix: {finding.fix}"]
        if dry_run:
            lines.append(f"  --apply would {finding.repair or 'leave this to you'}")
    return "\n".join(lines if found else [*lines, f"the topics of {application_id} are as it needs them"])


def _to_json(finding: TopicFinding) -> dict[str, str | None]:
    return {
        "topic": finding.topic,
        "problem": finding.problem,
        "fix": finding.fix,
        "repair": finding.repair,
    }
