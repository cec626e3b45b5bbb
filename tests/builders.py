"""Short ways to write down an application's control plane."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.incident import Action, Decision, Incident, IncidentKind
from airflow_provider.control.records.status import (
    CertificateStatus,
    FailureStatus,
    InstanceState,
    InstanceStatus,
    ProcessStatus,
    RestoreStatus,
    Role,
    SourceStatus,
    TaskState,
    TaskStatus,
)
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.evaluation import Observation
from airflow_provider.streaming.language.result import NamedOutput
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.streaming.language.table import Table
from airflow_provider.streaming.planner.compile import TopicFacts, TypesOf
from airflow_provider.streaming.planner.job import StatefulJob
from airflow_provider.streaming.planner.stage_plan import changelog_of, partitions_read, source_topics

APPLICATION = "app"


def topic_facts(
    job: StatefulJob, partitions: int = 1, delete_retention_ms: int = 86_400_000, **more: Any
) -> TopicFacts:
    """Topics that are as the job needs them.

    Args:
        job: whose they are.
        partitions: of each source.
        delete_retention_ms: of each changelog.
        more: fields of the facts.
    """
    plans = job.stages
    return TopicFacts(
        partitions=partitions_read(plans, dict.fromkeys(source_topics(plans), partitions)),
        delete_retention_ms={changelog_of(job.application_id, plan): delete_retention_ms for plan in plans},
        **more,
    )


def spark_types(**given: pa.DataType) -> TypesOf:
    """What Spark says of each source's rows: the types that are given, texts otherwise."""
    return lambda source: pa.schema({name: given.get(name, pa.string()) for name in (*source.columns, source.key_name)})


def job_of_result(
    result: Stream | Table, application_id: str = APPLICATION, sink: str | None = "out", store: str = "state"
) -> StatefulJob:
    """A job of one result, whose store is named by itself, and not by its sink."""
    assert result.origin is not None
    assert not isinstance(result.origin, NamedOutput)
    named = dataclasses.replace(result, origin=dataclasses.replace(result.origin, name=store))
    return StatefulJob(application_id, named if sink is None else named.sink(sink))


def task_id(task: int | TaskId) -> TaskId:
    """A number is that of a task of stage 0."""
    return TaskId(0, task) if isinstance(task, int) else task


def assigned(*tasks: str, generation: int = 1, application_id: str = APPLICATION) -> Assignment:
    """``assigned("a b", "b a", "- c")``: by task of stage 0 its active (``-`` for none), then its standbys."""
    given = {}
    for number, words in enumerate(map(str.split, tasks)):
        active, *standbys = words
        given[TaskId(0, number)] = TaskAssignment(None if active == "-" else active, tuple(standbys), generation)
    return Assignment(application_id=application_id, generation=generation, tasks=given, reason="test")


def placed(assignment: Assignment | Mapping[TaskId, TaskAssignment]) -> list[str]:
    """The inverse of `assigned`."""
    tasks = assignment.tasks if isinstance(assignment, Assignment) else assignment
    return [" ".join([task.active or "-", *task.standbys]) for _, task in sorted(tasks.items())]


def active(task: int | TaskId, state: TaskState = TaskState.RUNNING, generation: int = 1, **more: Any) -> TaskStatus:
    return task_status(task=task_id(task), role=Role.ACTIVE, state=state, generation=generation, **more)


def standby(task: int | TaskId, lag_records: int | None = 0, lag_s: float | None = 0.0, **more: Any) -> TaskStatus:
    more = {"position": 10, **more}
    return task_status(
        task=task_id(task), role=Role.STANDBY, state=TaskState.FOLLOWING, lag_records=lag_records, lag_s=lag_s, **more
    )


def task_status(**given: Any) -> TaskStatus:
    """Its nested values: ``stalled_s`` with ``source_lag`` or ``uncommitted_records``, ``error``, ``error_kind``,
    ``certified_position``, ``restore_phase``, ``restored_records``.
    """
    if "stalled_s" in given:
        words = ("stalled_s", "uncommitted_records", "source_lag")
        stalled_s, uncommitted, lag = (given.pop(word, 0) for word in words)
        given["source"] = SourceStatus(lag_records=lag, uncommitted_records=uncommitted, stalled_s=stalled_s)
    message, kind = given.pop("error", None), given.pop("error_kind", "StateError")
    nested: dict[str, Any] = {
        "failure": None if message is None else FailureStatus(kind, message),
        "certificate": CertificateStatus(given.pop("certified_position", None)),
        "restore": RestoreStatus(phase=given.pop("restore_phase", None), records=given.pop("restored_records", 0)),
    }
    return TaskStatus(**nested, **given)


def instance(
    name: str, *tasks: TaskStatus, state: InstanceState = InstanceState.RUNNING, incarnation: int = 1, **more: Any
) -> InstanceStatus:
    """``host``, ``pid``, ``log_file``, ``ui_url`` and ``exit_code`` are those of its process."""
    process = ProcessStatus(
        **{word: more.pop(word) for word in ("host", "pid", "log_file", "ui_url", "exit_code") if word in more}
    )
    return InstanceStatus(
        application_id=APPLICATION,
        instance=name,
        incarnation=incarnation,
        state=state,
        tasks=tasks,
        process=process,
        **more,
    )


def commit_of(task: int | TaskId = 0, **given: Any) -> CommitRecord:
    """The first commit of a task, of no source; `given` are fields."""
    defaults = {
        "application_id": APPLICATION,
        "sequence": 1,
        "generation": 1,
        "instance": "i1",
        "incarnation": 1,
        "committed_at_ms": 0,
        "sources": {},
    }
    return CommitRecord(task=task_id(task), **{**defaults, **given})


def view_of(assignment: Assignment | None, *statuses: InstanceStatus) -> ControlView:
    """All of them sent a heartbeat just now."""
    view = ControlView(APPLICATION, assignment=assignment, newest_ms=1_000)
    for status in statuses:
        view.statuses[status.instance] = status
        view.heard_at_ms[status.instance] = 1_000
    return view


def ended(name: str, *tasks: int) -> Incident:
    """Its process was killed."""
    return Incident(
        application_id=APPLICATION,
        kind=IncidentKind.INSTANCE_ENDED,
        instance=name,
        incarnation=1,
        tasks=tuple(map(task_id, tasks)),
        evidence="killed by signal 9",
        generation=1,
    )


def promoted(task: int | TaskId, to: str, evidence: str = "lag 0") -> Decision:
    return Decision(task=task_id(task), action=Action.PROMOTE, to=to, evidence=evidence)


def seen(assignment: Assignment | None, *statuses: InstanceStatus, **more: Any) -> Observation:
    return Observation(view_of(assignment, *statuses), **more)
