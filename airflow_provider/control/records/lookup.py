"""What a store holds of a key: the question that is put to an application's instances, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from airflow_provider.common.json_codec import from_numbered_json, to_numbered_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import Role, TaskState

LOOKUP_FORMAT: Final = 1
"""The newest format that this version reads, and the one that it writes."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a store holds of a key.

    Args:
        id: unique; the answers name it.
        key: the texts of the key's columns, as the output has them.
    """

    id: str
    store: str
    key: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class KeptState:
    """What is kept of the key under one name.

    Args:
        name: the key; of windows that of the window's output records.
        value: JSON, as text, with all digits; None where it is too large for an answer.
    """

    name: str
    value: str | None


@dataclass(frozen=True, kw_only=True)
class CopyAnswer:
    """What one copy of a task holds of the key.

    Args:
        states: none where it holds nothing of the key.
        problem: why it could not be looked up; None where it could.
        position: changelog offset up to which the store is applied.
        source_offset: of the next input record, after the last commit that the store contains; None before the first.
        commit_at: changelog offset of that commit; None where it is not known.
        committed_at_ms: when that was, epoch ms by the committing host.
        lag_records, lag_s: how far the copy is behind its changelog, as its status has it.
        complete: whether these are all states; very many, or large ones, are left out.
    """

    task: TaskId
    role: Role
    state: TaskState
    states: tuple[KeptState, ...] = ()
    problem: str | None = None
    position: int | None = None
    source_offset: int | None = None
    commit_at: int | None = None
    committed_at_ms: int | None = None
    lag_records: int | None = None
    lag_s: float | None = None
    complete: bool = True


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an instance says to a question, of some of its tasks.

    Args:
        question: its id.
        refusal: what is wrong with the question; None where nothing is.
        problem: why it looks nothing up now; None where it does.
    """

    question: str
    instance: str
    copies: tuple[CopyAnswer, ...] = ()
    refusal: str | None = None
    problem: str | None = None


_KINDS: Final[dict[str, type[Question | Answer]]] = {"question": Question, "answer": Answer}


def lookup_key(record: Question | Answer) -> bytes:
    """The key of its record: what kind it is."""
    return next(name for name, kind in _KINDS.items() if isinstance(record, kind)).encode()


def lookup_value(record: Question | Answer) -> bytes:
    """JSON of it, with the number of its format."""
    return to_numbered_json(record, LOOKUP_FORMAT)


def read_lookup(key: bytes | None, value: bytes | None) -> Question | Answer | None:
    """The inverse of both; None of what this version cannot read, which is nobody's to wait for."""
    kind = _KINDS.get((key or b"").decode("utf-8", "replace"))
    try:
        return None if kind is None or value is None else from_numbered_json(value, kind, LOOKUP_FORMAT)
    except msgspec.DecodeError:
        return None
