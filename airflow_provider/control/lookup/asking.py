"""Asks what a store holds of a key, of every copy of the tasks that may have it, and chooses what counts."""

from __future__ import annotations

import dataclasses
import math
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.table import utc
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.lookup.channel import LookupChannel
from airflow_provider.control.records.assignment import TaskAssignment
from airflow_provider.control.records.lookup import Answer, CopyAnswer, Question
from airflow_provider.control.records.task_state import Role, TaskState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import AssignmentError, ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection

TIMEOUT_S: Final = 5.0
"""For so long answers are waited for."""
_OTHERS_S: Final = 2.0
"""For so long owners are waited for once a standby has the key, and other tasks once an owner has it."""
_POLL_S: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class FoundCopy:
    """What counts of a task: its owner's answer where it runs, else that of the copy that is furthest.

    Args:
        owner: whether it is its owner's.
    """

    instance: str
    copy: CopyAnswer
    owner: bool


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

    def to_plain(self, value: Callable[[str | None], Any]) -> dict[str, Any]:
        """For programs.

        Args:
            value: what is made of each value's JSON; None for one that is too large to be shown.
        """
        return {
            "store": self.store,
            "key": list(self.key),
            "found": [
                {
                    **to_plain(dataclasses.replace(of.copy, states=())),
                    "instance": of.instance,
                    "stands": stands(of),
                    "states": [{"name": state.name, "value": value(state.value)} for state in of.copy.states],
                }
                for of in self.found.values()
            ],
            "absent": [str(task) for task in self.absent],
            "unknown": {str(task): why for task, why in self.unknown.items()},
        }


def stands(found: FoundCopy) -> str:
    """Who says it, and of when it is, in words."""
    copy = found.copy
    at = "before its first commit" if copy.commit_at is None else f"of the commit at offset {copy.commit_at:,}"
    if copy.committed_at_ms is not None:
        at += f", {utc(copy.committed_at_ms)}"
    if copy.source_offset is not None:
        at += f": all input before offset {copy.source_offset:,}"
    behind = "" if found.owner or not copy.lag_records else f", {copy.lag_records:,} changelog records behind"
    if behind and copy.lag_s:
        behind += f" for {copy.lag_s:.1f} s"
    if not found.owner:
        works = copy.role is Role.STANDBY or copy.state is TaskState.RUNNING
        behind += ", whose owner did not answer" if works else ", which does not process it now"
    state = "" if copy.state is TaskState.FOLLOWING else f", {copy.state.value}"
    return f"{copy.role.value}{state}{behind}, {at}"


def value_text(value: str | None) -> str:
    """A value as it is shown: all digits of a number that a browser's own would cut."""
    if value is None:
        return "too large to be shown"
    try:
        return msgspec.json.format(value, indent=2)
    except msgspec.DecodeError:  # who answered is no instance of this version
        return value


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
        ConfigurationError: there is no such store, its keys have another number of columns, or a text is none.
        AssignmentError: no task of it is assigned.
        TopicMissingError: the application has no control topics, or no lookups topic.
        AccessError: the connection's user may not ask.
        BrokerUnreachableError: no broker answers.
    """
    if not 0 < timeout_s < math.inf:
        raise ConfigurationError(f"A lookup cannot wait for {timeout_s:g} s: give it more than 0.")
    for text in (*key, *([] if store is None else [store])):
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ConfigurationError(
                f"{text!r} is no text in UTF-8: give the key and the store as the output has them."
            )
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
    if not store or (stages and store not in stages):
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


def _owner(tasks: Mapping[TaskId, TaskAssignment], copies: Mapping[str, CopyAnswer], task: TaskId) -> str | None:
    """The instance whose answer is that of a task's owner; None while there is none.

    One that runs a task and is not assigned to it was told nothing of the takeover yet: what it holds may be old.
    """
    who = tasks.get(task)
    if who is None or who.active is None or (copy := copies.get(who.active)) is None:
        return None
    return who.active if copy.state is TaskState.RUNNING and copy.problem is None else None


def settled(tasks: Mapping[TaskId, TaskAssignment], answers: Sequence[Answer], waited_s: float) -> bool:
    """Whether nothing more is waited for: each task's copies have said what they can, or enough have for so long.

    Args:
        waited_s: since the question was put.
    """
    copies, busy = _copies(answers), _problems(answers)
    if waited_s >= _OTHERS_S and _refusal(tasks, answers) is not None:
        return True
    owners = {task: _owner(tasks, copies.get(task, {}), task) for task in tasks}
    if waited_s >= _OTHERS_S and any(name is not None and copies[task][name].states for task, name in owners.items()):
        return True

    def done(task: TaskId, who: TaskAssignment) -> bool:
        of = copies.get(task, {})
        if owners[task] is not None:
            return True
        if set(who.holders) <= of.keys() | busy.keys():
            return True
        # That a standby holds nothing says nothing.
        return waited_s >= _OTHERS_S and any(copy.states for copy in of.values())

    return all(done(task, who) for task, who in tasks.items())


def outcome(question: Question, tasks: Mapping[TaskId, TaskAssignment], answers: Sequence[Answer]) -> Lookup:
    """What the answers come to.

    Raises:
        ConfigurationError: an instance that holds a task says what is wrong with the question, and none answers it. One
            that runs an earlier version of the job may not know the store yet.
    """
    if (refusal := _refusal(tasks, answers)) is not None:
        raise ConfigurationError(refusal)
    copies, busy = _copies(answers), _problems(answers)
    found: dict[TaskId, FoundCopy] = {}
    absent: list[TaskId] = []
    unknown: dict[TaskId, str] = {}
    for task in sorted({*tasks, *copies}):
        of = {name: copy for name, copy in copies.get(task, {}).items() if copy.problem is None}
        owner = _owner(tasks, of, task)
        best = owner or max(of, key=lambda name: (of[name].position or 0, name), default=None)
        if best is None:
            unknown[task] = _why(tasks.get(task, TaskAssignment(None)), copies.get(task, {}), busy)
        elif of[best].states:
            found[task] = FoundCopy(instance=best, copy=of[best], owner=best == owner)
        elif not of[best].complete:
            unknown[task] = f"{best} found nothing of it, and did not get through its store in time"
        elif best != owner:
            active = tasks.get(task, TaskAssignment(None)).active
            owner_is = "does not run it yet" if best == active else "did not answer"
            unknown[task] = f"{best} holds nothing of it, and its owner {owner_is}"
        else:
            absent.append(task)
    return Lookup(store=question.store, key=question.key, found=found, absent=tuple(absent), unknown=unknown)


def _refusal(tasks: Mapping[TaskId, TaskAssignment], answers: Sequence[Answer]) -> str | None:
    """What an instance that holds a task says is wrong with the question, while none answers it."""
    if any(answer.copies for answer in answers):
        return None
    holders = {name for who in tasks.values() for name in who.holders}
    return next((one.refusal for one in answers if one.refusal is not None and one.instance in holders), None)


def _problems(answers: Iterable[Answer]) -> dict[str, str]:
    """By instance, why it says nothing of its copies."""
    said = ((answer.instance, answer.refusal or answer.problem) for answer in answers)
    return {name: why for name, why in said if why is not None}


def _why(who: TaskAssignment, copies: Mapping[str, CopyAnswer], busy: Mapping[str, str]) -> str:
    """Why nothing is known of a task."""
    holders = [name for name in who.holders if name not in copies]
    said = [f"{name}: {copy.problem}" for name, copy in sorted(copies.items())]
    said += [f"{name}: {busy[name]}" for name in holders if name in busy]
    if silent := [name for name in holders if name not in busy]:
        said.append(f"{' and '.join(silent)} did not answer")
    return "; ".join(said) or "no instance has it"
