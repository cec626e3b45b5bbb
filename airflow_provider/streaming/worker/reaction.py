"""What to do about an error of one task: pure decisions, which `TaskRegistry` carries out."""

from __future__ import annotations

from enum import Enum

from airflow_provider.error_decision import class_of, stops_a_running_task
from airflow_provider.errors import (
    ErrorClass,
    StateError,
    StoreCorruptedError,
    StoreDivergedError,
    StoreOutdatedError,
    TopicDamagedError,
    TopicMismatchError,
    TopicMissingError,
    WorkerError,
)


class Reaction(Enum):
    """What becomes of a task after an error of its own. The other tasks go on, except after RAISE."""

    WAIT = "wait"
    """Another instance owns it: it waits for the newer assignment."""
    CLOSE_STORE = "close_store"
    """Its store is closed; a standby takes over, or the next call opens the store again."""
    REPLACE_STORE = "replace_store"
    """Its store is bad, so it is closed and moved aside; a standby takes over, or the next call restores another."""
    RETRY = "retry"
    """The error is reported, and the next call tries again."""
    RAISE = "raise"
    """The call ends with the error, and Spark or the query tries again from what is stored."""
    FAIL = "fail"
    """It stops; a newer assignment decides what comes next."""


def reaction_to_error(error: Exception) -> Reaction:
    """To an error of opening, fencing, restoring or following."""
    if isinstance(error, (StateError, TopicDamagedError)):
        return _reaction_to_state_error(error)  # what a standby holds may lie beyond what is damaged
    return Reaction.FAIL if _is_for_a_person(error) else Reaction.RETRY


def reaction_to_batch_error(error: Exception, attempts_left: bool) -> Reaction:
    """To an error of processing rows.

    Args:
        attempts_left: whether Spark would try the rows again.
    """
    found = class_of(error)
    if found is ErrorClass.OWNER:
        return Reaction.WAIT
    if isinstance(error, StateError):
        return _reaction_to_state_error(error)
    if found is ErrorClass.TRANSIENT or isinstance(error, TopicMissingError):
        return Reaction.RAISE
    if isinstance(error, TopicMismatchError):
        return Reaction.FAIL  # what another attempt would restore is not the task's alone any more
    # Workers crashed over these rows already: not once more.
    another = attempts_left and not isinstance(error, WorkerError) and not _is_for_a_person(error)
    return Reaction.RAISE if another else Reaction.FAIL


def _is_for_a_person(error: Exception) -> bool:
    return stops_a_running_task(type(error).__name__)


def _reaction_to_state_error(error: StateError | TopicDamagedError) -> Reaction:
    bad = isinstance(error, (StoreCorruptedError, StoreOutdatedError, StoreDivergedError))
    return Reaction.REPLACE_STORE if bad else Reaction.CLOSE_STORE
