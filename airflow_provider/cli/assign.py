"""``assign``: the first assignment, or the standbys that the tasks lack, as `AssignTasksOperator` does it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Final

from airflow_provider.cli.failover import close_incidents
from airflow_provider.cli.options import add_application_options, add_seconds, cluster_of, names_option
from airflow_provider.cli.terminal import ExitStatus, await_condition, say
from airflow_provider.common.table import table
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.job_topics import application_tasks
from airflow_provider.control.placement.task_placement import PlacedTasks, TaskPlacement, place_tasks
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publisher import publish_by
from airflow_provider.control.waiting.standby import StandbysWarm
from airflow_provider.kafka.connection import KafkaConnection

_ADVICE: Final = (
    "Correct the cause, then run the command again; with --wait it waits for instances that do not run yet."
)


def add_assign(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``assign``."""
    assign = commands.add_parser("assign", help="give the tasks to the instances, and every task its standbys")
    add_application_options(assign)
    assign.add_argument(
        "--instances",
        type=names_option,
        metavar="a,b",
        help="who may have tasks, also before they run (every running instance)",
    )
    assign.add_argument("--standbys", type=int, default=1, metavar="N", help="of each task (%(default)d)")
    assign.add_argument(
        "--store",
        default="state",
        metavar="NAME",
        help="of a job that was not described, to count its tasks (%(default)s)",
    )
    assign.add_argument("--balance", action="store_true", help="even out the load, too, step by step")
    meaning = "of --balance, for each step, and for the standbys where incidents are open"
    add_seconds(assign, "--timeout", 600.0, meaning)
    assign.add_argument(
        "--no-wait", action="store_true", help="leave incidents open rather than wait until every task is whole again"
    )
    assign.add_argument("--wait", action="store_true", help="with --balance, for instances that do not run yet, too")
    assign.add_argument("--json", action="store_true", help="for programs")
    assign.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    cluster = cluster_of(asked)
    wanted = TaskPlacement(
        instances=asked.instances,
        num_standby_replicas=max(0, asked.standbys),
        balance=asked.balance,
        reason="assigned by the command line",
    )
    placed = place(cluster, asked.application_id, wanted, asked.store)
    changed = placed.changed
    while asked.balance:
        warm = StandbysWarm(
            num_standby_replicas=None, generation=placed.assignment.generation, wait_for_instances=asked.wait
        )
        await_condition(cluster, asked.application_id, warm, asked.timeout, advice=_ADVICE)
        placed = place(cluster, asked.application_id, wanted, asked.store)
        if not placed.changed:
            break
        changed = True
    if asked.json:
        print(json.dumps(placed.to_plain() | {"changed": changed}, indent=2))
    else:
        print(placed_text(placed, changed))
    sys.stdout.flush()
    if not asked.no_wait and not placed.not_running:
        close_incidents(cluster, asked.application_id, wanted.num_standby_replicas, asked.timeout)
    return ExitStatus.FINE


def placed_text(placed: PlacedTasks, changed: bool) -> str:
    """A table for people."""
    rows = [
        (str(task_id), task.active or "-", ", ".join(task.standbys) or "-")
        for task_id, task in placed.assignment.tasks.items()
    ]
    head = f"generation {placed.assignment.generation}, {'published' if changed else 'which needs no change'}"
    return f"{head}\n\n{table(('task', 'active', 'standbys'), rows)}"


def place(cluster: KafkaConnection, application_id: str, wanted: TaskPlacement, store: str) -> PlacedTasks:
    """Publish the assignment that the living instances allow; warnings go to standard error."""

    def tasks() -> Sequence[TaskId]:
        return application_tasks(cluster, application_id, store)

    placed = publish_by(cluster, application_id, lambda publisher: place_tasks(publisher, wanted, tasks, Timeouts()))
    for warning in placed.warnings:
        say(warning)
    return placed
