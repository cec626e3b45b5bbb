"""``acls``: the rights that an application needs, as lines of a shell. It asks no broker."""

from __future__ import annotations

import argparse
from typing import Final

from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.kafka.acls import Role, acls_of
from airflow_provider.kafka.names import check_name
from airflow_provider.kafka.topic_findings import WantedTopics

__all__ = ["add_acls"]

_ROLES: Final = tuple(role.value for role in Role)


def add_acls(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``acls``."""
    acls = commands.add_parser("acls", help="print the fewest rights that an instance, Airflow or a viewer needs")
    acls.add_argument("application_id", metavar="APPLICATION", help="the application id that the job file names")
    acls.add_argument("--role", required=True, choices=_ROLES, help="who acts")
    acls.add_argument("--principal", required=True, metavar="TYPE:NAME", help="whom to grant them, as in User:orders")
    acls.add_argument("--source", action="append", default=[], metavar="TOPIC", help="what the job reads")
    acls.add_argument(
        "--output", action="append", default=[], metavar="TOPIC", help="a sink or a dead-letter topic of the job"
    )
    acls.add_argument("--store", action="append", metavar="NAME", help="of the job (state)")
    acls.add_argument(
        "--bootstrap-servers", metavar="HOST:PORT", default="localhost:9092", help="of the lines (localhost:9092)"
    )
    acls.add_argument("--command-config", metavar="FILE", help="of the lines: how kafka-acls.sh logs in")
    acls.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    application = WantedTopics(
        application_id=asked.application_id,
        sources=tuple(asked.source),
        stores=tuple(check_name("store", store) for store in asked.store or ("state",)),
        outputs=tuple(asked.output),
    )
    for acl in acls_of(Role(asked.role), application):
        print(acl.to_command(asked.principal, asked.bootstrap_servers, asked.command_config))
    return ExitStatus.FINE
