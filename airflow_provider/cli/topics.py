"""``topics`` and ``acls``: whether an application's topics are as it needs them, and which rights it needs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from airflow_provider.cli.options import add_cluster_options, add_each, cluster_of, settings_option
from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.control.application.job_topics import create_job_topics, read_view_if_there, sized_job
from airflow_provider.control.application.rights import Role, acls_of
from airflow_provider.control.application.topic_repair import find_described_problems, find_topic_problems, repair_topic
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.application_topics import refuse_those_of_others
from airflow_provider.kafka.broker_features import transaction_version
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, check_name
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_findings import TopicFinding, WantedTopics
from airflow_provider.launch.job_file import describe_job_file

_OURS = (
    "librdkafka speaks 0: a producer's epoch is that of many transactions, and one whose end may be repeated is given "
    "up before the next ('Kafka's own transactions' in docs/protocol.md)"
)


def add_topics(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``topics``."""
    topics = commands.add_parser(
        "topics", help="verify an application's topics, or repair them; exits with 3 where something differs"
    )
    topics.add_argument("action", choices=("verify", "repair"), help="repair only says what it would do")
    topics.add_argument(
        "subject", metavar="APPLICATION|JOB.py", help="an application id, or the job file, which says all topics"
    )
    add_cluster_options(topics)
    topics.add_argument("--apply", action="store_true", help="of repair: do it")
    rebuilt = "of repair: this changelog or commit topic, too, which is to be rebuilt from the stores (runbook)"
    add_each(topics, "--empty", "TOPIC", rebuilt)
    _add_job_options(topics, "; default what the job file said when the topics were created")
    topics.add_argument("--replication-factor", type=int, metavar="N", help="at least so many; else any is taken")
    add_each(topics, "--env", "K=V", "of a job file: its environment")
    topics.add_argument("--json", action="store_true", help="for programs")
    topics.set_defaults(act=_topics)


def _add_job_options(parser: argparse.ArgumentParser, else_read: str = "") -> None:
    """The argument of a job file, and what is said of a job in the place of its file."""
    add_each(parser, "--arg", "A", "of a job file: its argument")
    add_each(parser, "--source", "TOPIC", f"of an application: what its job reads{else_read}")
    add_each(parser, "--output", "TOPIC", "of an application: a sink or a dead-letter topic")
    add_each(parser, "--store", "NAME", "of an application (state)")
    add_each(parser, "--windowed-store", "NAME", "of an application: a store of windows")


def _refuse_job_options(asked: argparse.Namespace) -> None:
    if asked.source or asked.output or asked.store or asked.windowed_store:
        raise ConfigurationError(
            f"{asked.subject!r} is a job file, which says which topics it needs: leave --source, --output, --store and "
            "--windowed-store out."
        )


def _topics(asked: argparse.Namespace) -> int:
    if asked.subject.endswith(".py"):
        return _topics_of_file(asked)
    if asked.arg or asked.env:
        raise ConfigurationError(
            f"--arg and --env are of a job file, and {asked.subject!r} is an application: name the file."
        )
    asked.application_id = check_name("application id", asked.subject)
    cluster = cluster_of(asked)
    admin = TopicAdmin(cluster)
    stores = tuple(dict.fromkeys((*asked.store, *asked.windowed_store)))
    wanted = WantedTopics(
        application_id=asked.application_id,
        sources=tuple(asked.source),
        stores=tuple(check_name("store", name) for name in stores or ("state",)),
        windowed_stores=tuple(asked.windowed_store),
        outputs=tuple(asked.output),
        replication_factor=asked.replication_factor,
        empty=tuple(asked.empty),
    )
    # What the job file said when the topics were created, unless the command line says it.
    named = asked.source or asked.output or stores
    view = None if named else read_view_if_there(cluster, admin, asked.application_id)

    def look() -> tuple[TopicFinding, ...]:
        if view is not None and view.job is not None:
            return find_described_problems(admin, view, view.job, asked.replication_factor, asked.empty)
        return find_topic_problems(cluster, admin, wanted)

    done: list[str] = []
    found = look()
    if asked.action == "repair" and asked.apply:
        own = wanted.stores if view is None or view.job is None else view.job.stores
        refuse_those_of_others(admin, asked.application_id, own)
        done = [repair_topic(admin, finding) for finding in found if finding.repair is not None]
        found = look()
    return _say(asked, cluster, asked.application_id, found, done)


def _topics_of_file(asked: argparse.Namespace) -> int:
    """The topics that a job file says; with ``repair --apply`` it is kept what the job is made of, too."""
    _refuse_job_options(asked)
    cluster = cluster_of(asked)
    admin = TopicAdmin(cluster)
    env_vars = settings_option("--env", asked.env)
    said = describe_job_file(asked.subject, application_args=asked.arg, env_vars=env_vars)

    def look() -> tuple[TopicFinding, ...]:
        view = read_view_if_there(cluster, admin, said.application_id)
        before = None if view is None else view.job
        job = sized_job(admin, said, before)
        found = find_described_problems(admin, view, job, asked.replication_factor, asked.empty)
        if job == before:
            return found
        # What is left to a person may be why the job should not go on as it is now.
        held_up = any(finding.repair is None for finding in found)
        return (*found, _not_described(job, described=before is not None, held_up=held_up))

    done: list[str] = []
    found = look()
    if asked.action == "repair" and asked.apply:
        refuse_those_of_others(admin, said.application_id, said.stores)
        done = [repair_topic(admin, finding) for finding in found if finding.repair is not None]
        if all(finding.repair is not None for finding in found):
            create_job_topics(cluster, admin, said, asked.replication_factor)
        found = look()
    return _say(asked, cluster, said.application_id, found, done)


def _not_described(job: JobDescription, *, described: bool, held_up: bool) -> TopicFinding:
    gone = f" What it does not need any more stays: {', '.join(job.gone)}." if job.gone else ""
    return TopicFinding(
        f"the job of {job.application_id!r} was changed since its topics were created.{gone}"
        if described
        else f"the job of {job.application_id!r} was not described yet, so its tasks are not known.",
        ("Correct what else is named here first. Then run" if held_up else "Run")
        + " 'topics repair' of the job file with --apply, or the deploy DAG, before the instances that run it.",
        topic=assignment_topic(job.application_id),
        keep=None if held_up else f"keep in {assignment_topic(job.application_id)} what the job is made of",
    )


def _say(
    asked: argparse.Namespace,
    cluster: KafkaConnection,
    application_id: str,
    found: Sequence[TopicFinding],
    done: Sequence[str],
) -> int:
    version = transaction_version(cluster)
    if asked.json:
        findings = [{"topic": one.topic, "problem": one.problem, "fix": one.fix, "repair": one.repair} for one in found]
        print(json.dumps({"done": done, "findings": findings, "transaction_version": version}, indent=2))
    else:
        print(findings_text(application_id, found, done, dry_run=asked.action == "repair" and not asked.apply))
        print(_transactions_text(version))
    return ExitStatus.NO if found else ExitStatus.FINE


def findings_text(
    application_id: str, found: Sequence[TopicFinding], done: Sequence[str] = (), *, dry_run: bool = False
) -> str:
    """Lines for people."""
    lines = [f"done: {line}" for line in done]
    for finding in found:
        lines += [finding.problem, f"  fix: {finding.fix}"]
        if dry_run:
            lines.append(f"  --apply would {finding.repair or 'leave this to you'}")
    return "\n".join(lines if found else [*lines, f"the topics of {application_id} are as it needs them"])


def _transactions_text(version: int | None) -> str:
    """What the brokers' version of transactions means here: librdkafka speaks none but the first."""
    said = "is not known (no bootstrap server told it)" if version is None else f"is {version}"
    return f"transaction.version of the brokers {said}; {_OURS}"


def add_acls(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``acls``."""
    acls = commands.add_parser("acls", help="print the fewest rights that an instance, Airflow or a viewer needs")
    acls.add_argument(
        "subject", metavar="APPLICATION|JOB.py", help="a job file, which says its topics; or an application id"
    )
    acls.add_argument("--role", required=True, choices=[role.value for role in Role], help="who acts")
    acls.add_argument("--principal", required=True, metavar="TYPE:NAME", help="whom to grant them, as in User:orders")
    _add_job_options(acls)
    acls.add_argument(
        "--bootstrap-servers", metavar="HOST:PORT", default="localhost:9092", help="of the lines (localhost:9092)"
    )
    acls.add_argument("--command-config", metavar="FILE", help="of the lines: how kafka-acls.sh logs in")
    acls.set_defaults(act=_acls)


def _acls(asked: argparse.Namespace) -> int:
    job = _job_of_file(asked) if asked.subject.endswith(".py") else _job_of_options(asked)
    for acl in acls_of(Role(asked.role), job):
        print(acl.to_command(asked.principal, asked.bootstrap_servers, asked.command_config))
    return ExitStatus.FINE


def _job_of_file(asked: argparse.Namespace) -> JobDescription:
    _refuse_job_options(asked)
    return describe_job_file(asked.subject, None, application_args=asked.arg)


def _job_of_options(asked: argparse.Namespace) -> JobDescription:
    if asked.arg:
        raise ConfigurationError(f"--arg is of a job file, and {asked.subject!r} is an application: name the file.")
    stores = tuple(dict.fromkeys((*asked.store, *asked.windowed_store))) or ("state",)
    return JobDescription.of_topics(
        check_name("application id", asked.subject),
        sources=asked.source,
        stores=[check_name("store", name) for name in stores],
        windowed_stores=asked.windowed_store,
        outputs=asked.output,
    )
