"""``describe``: all that is known of an application, of one of its instances or tasks; or the stages of a job file."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Collection
from typing import Any, Final

from airflow_provider.cli.options import add_cluster_options, add_seconds, add_start_timeout, cluster_of
from airflow_provider.cli.status import look
from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.cli.text import nested_text
from airflow_provider.common.json_codec import to_json, to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.job_text import description_text, mermaid
from airflow_provider.control.application.job_topics import with_what_is_gone
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError, InstanceError
from airflow_provider.kafka.names import check_name
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.launch.job_file import describe_job_file

_SECRET: Final = re.compile(r"(?i)secret|passw|token|credential|access.?key|sasl|jaas")
_HIDDEN: Final = "(hidden)"


def add_describe(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``describe``."""
    describing = commands.add_parser(
        "describe", help="all that is known of an application, an instance or a task; or the stages of a job file"
    )
    describing.add_argument("subject", metavar="APPLICATION|JOB.py", help="an application id, or a job file")
    add_cluster_options(describing)
    describing.add_argument("what", nargs="?", metavar="INSTANCE|TASK", help="such as a, or 0_3; nothing for all")
    add_seconds(describing, "--listen", 5.0, "for heartbeats")
    add_start_timeout(describing)
    describing.add_argument("--json", action="store_true", help="for programs")
    describing.add_argument("--mermaid", action="store_true", help="of a job file: as a picture in Mermaid's words")
    describing.add_argument("--arg", action="append", default=[], metavar="A", help="of a job file: its argument")
    describing.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    if asked.subject.endswith(".py"):
        return _describe_file(asked)
    if asked.mermaid or asked.arg:
        raise ConfigurationError(
            f"--mermaid and --arg are of a job file, and {asked.subject!r} is an application: name the file."
        )
    application_id = check_name("application id", asked.subject)
    cluster = cluster_of(asked)
    with ControlReader(cluster, application_id) as reader:
        state = look(reader, asked.listen, Timeouts(start_s=asked.start_timeout))
    job = state.view.job
    if job is not None:
        state.view.job = job = with_what_is_gone(TopicAdmin(cluster), job)
    known = describe(state.view, state.silent, asked.what)
    if not asked.json and asked.what is None and job is not None:
        print(f"{description_text(job)}\n")
        known = {name: value for name, value in known.items() if name not in ("application_id", "job")}
    print(json.dumps(known, indent=2) if asked.json else nested_text(known))
    return ExitStatus.FINE


def _describe_file(asked: argparse.Namespace) -> int:
    if asked.what is not None:
        raise ConfigurationError(
            f"{asked.subject!r} is a job file, and has no {asked.what!r} yet: name the application to see an instance "
            "or a task."
        )
    job = describe_job_file(asked.subject, application_args=asked.arg)
    print(to_json(job).decode() if asked.json else mermaid(job) if asked.mermaid else description_text(job))
    return ExitStatus.FINE


def describe(view: ControlView, silent: Collection[str], what: str | None = None) -> dict[str, Any]:
    """What the control topics hold of it, as values that JSON knows.

    Args:
        silent: the instances that sent no heartbeat while they were listened to.
        what: an instance's name, or a task; None for the whole application.
    """
    if what is None:
        return _of_application(view, silent)
    if what in _instances(view):
        return _of_instance(view, what, what in silent)
    task_id = _task(what)
    assignment = view.assignment
    if task_id is not None and assignment is not None and task_id in assignment.tasks:
        return _of_task(view, assignment, task_id)
    tasks = ", ".join(map(str, assignment.tasks)) if assignment else ""
    raise InstanceError(
        f"{view.application_id!r} has no instance and no task {what!r}: its instances are "
        f"{', '.join(_instances(view)) or 'none'}, its tasks {tasks or 'none'}."
    )


def without_secrets(deployment: Deployment) -> dict[str, Any]:
    """A deployment as plain values: no value of a name that sounds like a secret, and no variable's value."""
    plain: dict[str, Any] = to_plain(deployment)
    plain["conf"] = {key: _HIDDEN if _SECRET.search(key) else value for key, value in deployment.conf.items()}
    plain["env_vars"] = dict.fromkeys(deployment.env_vars, _HIDDEN)
    plain["application_args"] = _arguments(deployment.application_args)
    return plain


def _arguments(arguments: Collection[str]) -> list[str]:
    """Those that sound like a secret are hidden, with the one that follows an option of such a name."""
    shown, hide = [], False
    for argument in arguments:
        secret = _SECRET.search(argument) is not None
        shown.append(_HIDDEN if hide or (secret and not _is_bare_option(argument)) else argument)
        hide = secret and _is_bare_option(argument)
    return shown


def _is_bare_option(argument: str) -> bool:
    return argument.startswith("-") and "=" not in argument


def _of_application(view: ControlView, silent: Collection[str]) -> dict[str, Any]:
    return {
        "application_id": view.application_id,
        "job": to_plain(view.job),
        "assignment": to_plain(view.assignment),
        "instances": [_of_instance(view, name, name in silent) for name in _instances(view)],
        "incidents": [to_plain(record) for record in _incidents(view)],
        "faults": [to_plain(fault) for fault in view.faults.values()],
        "unreadable": {key.decode("utf-8", "replace"): why for key, why in view.unreadable.items()},
    }


def _of_instance(view: ControlView, name: str, silent: bool) -> dict[str, Any]:
    status, deployment, assignment = view.statuses.get(name), view.deployments.get(name), view.assignment
    return {
        "instance": name,
        "heard_at_ms": view.heard_at_ms.get(name),
        "silent": silent,
        "active_for": [str(task) for task in assignment.active_on(name)] if assignment else [],
        "standby_for": [str(task) for task in assignment.standby_on(name)] if assignment else [],
        "status": None if status is None else to_plain(status),
        "deployment": None if deployment is None else without_secrets(deployment),
        "commands_not_done": [to_plain(command) for command in view.commands.get(name, {}).values()],
        "incidents": [to_plain(record) for record in _incidents(view) if record.incident.instance == name],
    }


def _of_task(view: ControlView, assignment: Assignment, task_id: TaskId) -> dict[str, Any]:
    given = assignment.tasks[task_id]
    return {
        "task": str(task_id),
        "generation": assignment.generation,
        "active": given.active,
        "active_since_generation": given.active_since,
        "standbys": list(given.standbys),
        "copies": [
            {"instance": name, "host": status.stores_host, **to_plain(copy)}
            for name, status in sorted(view.statuses.items(), key=lambda one: (one[0] != given.active, one[0]))
            if status.state.alive and (copy := status.task(task_id)) is not None
        ],
        "incidents": [to_plain(record) for record in _incidents(view) if task_id in record.incident.tasks],
    }


def _instances(view: ControlView) -> list[str]:
    named = view.assignment.instances if view.assignment else ()
    return sorted({*named, *view.statuses, *view.deployments})


def _incidents(view: ControlView) -> list[IncidentRecord]:
    return sorted(view.incidents.values(), key=lambda record: record.decided_at_ms, reverse=True)


def _task(text: str) -> TaskId | None:
    try:
        return TaskId.parse(text)
    except ConfigurationError:
        return None
