"""What a task's store holds of a key, for people: read where it is open, between two micro-batches."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from typing import Final

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.replica import Replica
from airflow_provider.control.records.lookup import CopyAnswer, KeptState
from airflow_provider.control.records.status import TaskState
from airflow_provider.error_text import error_text
from airflow_provider.errors import StateError
from airflow_provider.state.position import ChangelogPosition
from airflow_provider.state.time_segments import PREFIX_BYTES, time_of, time_prefix
from airflow_provider.streaming.json.user_values import json_text
from airflow_provider.streaming.operations.operation import Operation, StoredStates
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.worker.tasks.replica_opening import continued_signature
from airflow_provider.streaming.worker.tasks.task import Task

_MOST_PAIRS: Final = 1000
"""Read of a store. Beyond them a lookup would be felt by the stream."""
_MOST_READ_BYTES: Final = 16 << 20
_MOST_TIMES: Final = 5_000
"""Of windows or their segments, that are looked at: the newest first."""
_MOST_BYTES: Final = 128 << 10
"""Of an answer, which has to fit into a record of Kafka."""
_LAST: Final = b"\xff" * (PREFIX_BYTES + 1)
_FIRST_TIME: Final = time_of(bytes(PREFIX_BYTES))


def look_up(task: Task, group: bytes, until: float) -> CopyAnswer:
    """What a copy holds of a group. Whatever goes wrong is its `problem`: nothing of the task depends on it.

    Args:
        until: monotonic seconds; what is not looked up by then is left out.
    """
    status, position = task.status(), task.replica.position
    answer = CopyAnswer(
        task=task.id,
        role=task.plan.role,
        state=task.state,
        position=None if position is None else position.offset,
        commit_at=None if position is None else _last_commit_at(position),
        source_offset=status.source_offset,
        lag_records=status.lag_records,
        lag_s=status.lag_s,
    )
    if time.monotonic() > until:
        return dataclasses.replace(answer, problem="it is asked for more than it looks up beside its work")
    try:
        record = task.commit_record
        states, complete = _states(task, group, record, until)
    except Exception as error:  # a job that would misread the state, a value that cannot be shown
        return dataclasses.replace(answer, problem=error_text(error))
    committed_at_ms = None if record is None else record.committed_at_ms
    return dataclasses.replace(answer, states=states, complete=complete, committed_at_ms=committed_at_ms)


def _last_commit_at(position: ChangelogPosition) -> int | None:
    return position.commit_at if position.own_commit_at is None else position.own_commit_at


def _states(task: Task, group: bytes, record: CommitRecord | None, until: float) -> tuple[tuple[KeptState, ...], bool]:
    replica, operation = task.replica, task.operation
    if replica.store.in_bulk_load_mode(replica.name):
        raise StateError("its store is being restored, and cannot be read meanwhile")
    if task.state is not TaskState.RUNNING:  # what another version of the job wrote is read as its owner would
        signature = continued_signature(task.job, record)
        operation = task.job.operation if signature is None else task.job.operation.going_on(signature)
    pairs, complete = _pairs(operation, replica, group, until)
    stored = StoredStates(pairs, task.job.input.columns, StreamTime.after(record), replica.get_many)
    states, room = list[KeptState](), _MOST_BYTES
    for of, name, value in operation.read_states(stored):
        if of.encode() != group:
            continue
        text, room = json_text(value), room - len(name.encode())
        shown = (size := len(text.encode())) <= _MOST_BYTES
        room -= size if shown else 0
        if room < 0:
            return tuple(states), False
        states.append(KeptState(name=name, value=text if shown else None))
    return tuple(states), complete


def _pairs(
    operation: Operation, replica: Replica, group: bytes, until: float
) -> tuple[list[tuple[bytes, bytes]], bool]:
    """What the store keeps of a group, and whether that is all of it."""
    ranges, complete = operation.ranges_of(group), True
    if operation.timed:
        times, complete = _times(replica, until)
        prefixes = [time_prefix(one) for one in reversed(times)]
        ranges = [(prefix + begin, prefix + end) for prefix in prefixes for begin, end in ranges]
    found = list[tuple[bytes, bytes]]()

    def so_far(complete: bool) -> tuple[list[tuple[bytes, bytes]], bool]:
        return sorted(found, key=lambda pair: pair[0][:PREFIX_BYTES]) if operation.timed else found, complete

    left, room = _MOST_PAIRS, _MOST_READ_BYTES
    for begin, end in ranges:
        if time.monotonic() > until:
            return so_far(False)
        for key, value in replica.range(begin, end):
            left, room = left - 1, room - len(value)
            if left < 0 or room < 0:
                return so_far(False)
            if operation.groups([key]) == [group]:
                found.append((key, value))
    return so_far(complete)


def _times(replica: Replica, until: float) -> tuple[list[int], bool]:
    """The newest times that the keys of a store begin with, ascending, and whether these are all.

    A store is read forwards only: from further and further before its last time, twice as far each time.
    """
    first = _time_from(replica, _FIRST_TIME)
    if first is None:
        return [], True
    newest = _last_time(replica, first)
    found, end, back = list[int](), newest + 1, 1
    while end > first:
        begin, room = max(first, newest - back), _MOST_TIMES - len(found)
        earlier, number, time_ms = deque[int](maxlen=room), 0, _time_from(replica, begin)
        while time_ms is not None and time_ms < end:
            if time.monotonic() > until:
                return found, False  # the newest of these are missing
            earlier.append(time_ms)
            number, time_ms = number + 1, _time_from(replica, time_ms + 1)
        found[:0] = earlier
        if number > room:
            return found, False
        end, back = begin, 2 * back
    return found, True


def _time_from(replica: Replica, time_ms: int) -> int | None:
    """The first time from one on; None where there is none."""
    pair = next(replica.range(time_prefix(time_ms), _LAST), None)
    return None if pair is None else time_of(pair[0])


def _last_time(replica: Replica, first: int) -> int:
    """The last of all, which is the first or later."""
    low, high = first, -_FIRST_TIME
    while high - low > 1:
        middle = (low + high) // 2
        if (time_ms := _time_from(replica, middle)) is None:
            high = middle
        else:
            low = time_ms
    return low
