"""``acls``: the rights that an application needs, as lines of a shell. It asks no broker."""

from __future__ import annotations

import argparse
from typing import Final

from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.control.application.rights import Role, acls_of
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_name
from airflow_provider.launch.job_file import describe_job_file

_ROLES: Final = tuple(role.value for role in Role)


def add_acls(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``acls``."""
    acls = commands.add_parser("acls", help="print the fewest rights that an instance, Airflow or a viewer needs")
    acls.add_argument(
        "subject", metavar="APPLICATION|JOB.py", help="a job file, which says its topics; or an application id"
    )
    acls.add_argument("--role", required=True, choices=_ROLES, help="who acts")
    acls.add_argument("--principal", required=True, metavar="TYPE:NAME", help="whom to grant them, as in User:orders")
    acls.add_argument("--arg", action="append", default=[], metavar="A", help="of a job file: its argument")
    acls.add_argument(
        "--source", action="append", default=[], metavar="TOPIC", help="of an application: what its job reads"
    )
    acls.add_argument(
        "--output", action="append", default=[], metavar="TOPIC", help="of an application: a sink or dead-letter topic"
    )
    acls.add_argument("--store", action="append", default=[], metavar="NAME", help="of an application (state)")
    acls.add_argument(
        "--windowed-store", action="append", default=[], metavar="NAME", help="of an application, a store of windows"
    )
    acls.add_argument(
        "--bootstrap-servers", metavar="HOST:PORT", default="localhost:9092", help="of the lines (localhost:9092)"
    )
    acls.add_argument("--command-config", metavar="FILE", help="of the lines: how kafka-acls.sh logs in")
    acls.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    job = _of_file(asked) if asked.subject.endswith(".py") else _of_options(asked)
    for acl in acls_of(Role(asked.role), job):
        print(acl.to_command(asked.principal, asked.bootstrap_servers, asked.command_config))
    return ExitStatus.FINE


def _of_file(asked: argparse.Namespace) -> JobDescription:
    if asked.source or asked.output or asked.store or asked.windowed_store:
        raise ConfigurationError(
            f"{asked.subject!r} is a job file, which says its topics and stores by itself: leave --source, --output, "
            "--store and --windowed-store out."
        )
    return describe_job_file(asked.subject, None, application_args=asked.arg)


def _of_options(asked: argparse.Namespace) -> JobDescription:
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
