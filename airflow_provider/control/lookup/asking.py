"""Asks what a store holds of a key, of every copy of the tasks that may have it, and chooses what counts."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.table import utc
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.lookup.channel import LookupChannel
from airflow_provider.control.records.assignment import TaskAssignment
from airflow_provider.control.records.lookup import Answer, CopyAnswer, Question
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import AssignmentError, ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection

TIMEOUT_S: Final = 5.0
"""For so long answers are waited for."""
_OWNERS_S: Final = 2.0
"""For so long owners are waited for once each task has answered by a standby."""
_POLL_S: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class FoundCopy:
    """What counts of a task: its owner's answer where it runs, else that of the copy that is furthest."""

    instance: str
    copy: CopyAnswer


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """What became of a question.

    Args:
        found: of tasks whose store holds something of the key, by task.
        absent: tasks whose store holds nothing of it.
        unknown: by task of which nothing is known, why.
    """

    store: str
    key: tuple[str, ...]
    found: Mapping[TaskId, FoundCopy]
    absent: tuple[TaskId, ...]
    unknown: Mapping[TaskId, str]

    def to_plain(self, value: Callable[[str], Any]) -> dict[str, Any]:
        """For programs.

        Args:
            value: what is made of each value's JSON.
        """
        return {
            "store": self.store,
            "key": list(self.key),
            "found": [
                {
                    **to_plain(dataclasses.replace(of.copy, states=())),
                    "instance": of.instance,
                    "stands": stands(of.copy),
                    "states": [{"name": state.name, "value": value(state.value)} for state in of.copy.states],
                }
                for of in self.found.values()
            ],
            "absent": [str(task) for task in self.absent],
            "unknown": {str(task): why for task, why in self.unknown.items()},
        }


def stands(copy: CopyAnswer) -> str:
    """Who says it, and of when it is, in words."""
    at = "before its first commit" if copy.commit_at is None else f"of the commit at offset {copy.commit_at:,}"
    if copy.committed_at_ms is not None:
        at += f", {utc(copy.committed_at_ms)}"
    if copy.source_offset is not None:
        at += f": all input before offset {copy.source_offset:,}"
    behind = "" if _owns(copy) or not copy.lag_records else f", {copy.lag_records:,} changelog records behind"
    if behind and copy.lag_s:
        behind += f" for {copy.lag_s:.1f} s"
    return f"{copy.role.value}, {copy.state.value}{behind}, {at}"


def look_up(
    connection: KafkaConnection,
    application_id: str,
    key: Sequence[str],
    store: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Lookup:
    """Ask the instances of an application what a store holds of a key.

    Args:
        key: the texts of the key's columns.
        store: its name; None for the only one.

    Raises:
        ConfigurationError: there is no such store, or its keys have another number of columns.
        AssignmentError: no task of it is assigned.
        TopicMissingError: the application has no control topics, or no lookups topic.
        AccessError: the connection's user may not ask.
        BrokerUnreachableError: no broker answers.
    """
    with ControlReader(connection, application_id, statuses=False) as reader:
        view = reader.read_to_end()
    name, tasks = place_of(view, store)
    question = Question(id=uuid.uuid4().hex, store=name, key=tuple(key))
    answers: list[Answer] = []
    with LookupChannel(connection, application_id) as channel:
        began = time.monotonic()
        channel.send(question)
        while (now := time.monotonic() - began) < timeout_s and not settled(tasks, answers, now):
            record = channel.receive(_POLL_S)
            if isinstance(record, Answer) and record.question == question.id:
                answers.append(record)
    return outcome(question, tasks, answers)


def place_of(view: ControlView, store: str | None) -> tuple[str, Mapping[TaskId, TaskAssignment]]:
    """A store's name, and who works for the tasks that keep it.

    Args:
        store: None for the only one.

    Raises:
        ConfigurationError: there is no such store, or several and none is named.
        AssignmentError: no task of it is assigned.
    """
    application_id, job = view.application_id, view.job
    stages = {stage.store: stage.number for stage in job.stages if stage.store} if job is not None else {}
    if not stages and job is not None:  # described by its topics alone: one stage
        stages = {topic.store: topic.stage for topic in job.topics if topic.store}
    if store is None and len(stages) == 1:
        store = next(iter(stages))
    if store is None or (stages and store not in stages):
        there = ", ".join(map(repr, stages)) or "none that is known here"
        raise ConfigurationError(f"{application_id!r} was asked for the store {store!r}, and has {there}: name one.")
    assigned = {} if view.assignment is None else view.assignment.tasks
    tasks = {task: who for task, who in assigned.items() if task.stage == stages.get(store, 0)}
    if not tasks:
        raise AssignmentError(
            f"No task of {application_id!r} that keeps the store {store!r} is assigned: deploy the application first."
        )
    return store, tasks


def _copies(answers: Iterable[Answer]) -> dict[TaskId, dict[str, CopyAnswer]]:
    """By task and instance, what it said last."""
    found: dict[TaskId, dict[str, CopyAnswer]] = {}
    for answer in answers:
        for copy in answer.copies:
            found.setdefault(copy.task, {})[answer.instance] = copy
    return found


def _owns(copy: CopyAnswer) -> bool:
    return copy.state is TaskState.RUNNING and copy.problem is None


def settled(tasks: Mapping[TaskId, TaskAssignment], answers: Sequence[Answer], waited_s: float) -> bool:
    """Whether nothing more is waited for: an owner has the key; or each task's copies have said what they can.

    Args:
        waited_s: since the question was put.
    """
    copies = _copies(answers)
    if any(_owns(copy) and copy.states for of in copies.values() for copy in of.values()):
        return True
    busy = _problems(answers)
    if any(answer.refusal is not None for answer in answers):
        return True

    def done(task: TaskId, who: TaskAssignment) -> bool:
        of = copies.get(task, {})
        if any(map(_owns, of.values())):
            return True
        holders = {name for name in (who.active, *who.standbys) if name is not None}
        if holders <= of.keys() | busy.keys():
            return True
        return waited_s >= _OWNERS_S and any(copy.problem is None for copy in of.values())

    return all(done(task, who) for task, who in tasks.items())


def outcome(question: Question, tasks: Mapping[TaskId, TaskAssignment], answers: Sequence[Answer]) -> Lookup:
    """What the answers come to.

    Raises:
        ConfigurationError: an instance says what is wrong with the question.
    """
    copies = _copies(answers)
    for answer in answers:
        if answer.refusal is not None:
            raise ConfigurationError(answer.refusal)
    busy = _problems(answers)
    found: dict[TaskId, FoundCopy] = {}
    absent: list[TaskId] = []
    unknown: dict[TaskId, str] = {}
    for task in sorted({*tasks, *copies}):
        of = {name: copy for name, copy in copies.get(task, {}).items() if copy.problem is None}
        best = max(of, key=lambda name: (_owns(of[name]), of[name].position or 0, name), default=None)
        if best is None:
            unknown[task] = _why(tasks.get(task, TaskAssignment(None)), copies.get(task, {}), busy)
        elif of[best].states:
            found[task] = FoundCopy(instance=best, copy=of[best])
        elif (why := _not_all(of[best])) is not None:
            unknown[task] = f"{best} holds nothing of it, and {why}"
        else:
            absent.append(task)
    return Lookup(store=question.store, key=question.key, found=found, absent=tuple(absent), unknown=unknown)


def _not_all(copy: CopyAnswer) -> str | None:
    """Why a copy without the key does not say that it is absent; None where it does."""
    if not copy.complete:
        return "was not looked through to its end: it keeps very many windows"
    if _owns(copy) or copy.lag_records == 0:
        return None
    return (
        "does not know how far it is behind" if copy.lag_records is None else f"is {copy.lag_records:,} records behind"
    )


def _problems(answers: Iterable[Answer]) -> dict[str, str]:
    return {answer.instance: answer.problem for answer in answers if answer.problem is not None}


def _why(who: TaskAssignment, copies: Mapping[str, CopyAnswer], busy: Mapping[str, str]) -> str:
    """Why nothing is known of a task."""
    holders = [name for name in (who.active, *who.standbys) if name is not None and name not in copies]
    said = [f"{name}: {copy.problem}" for name, copy in sorted(copies.items())]
    said += [f"{name}: {busy[name]}" for name in holders if name in busy]
    if silent := [name for name in holders if name not in busy]:
        said.append(f"{' and '.join(silent)} did not answer")
    return "; ".join(said) or "no instance has it"
