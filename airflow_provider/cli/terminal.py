"""What a command tells a person and a script: lines beside the result, and the exit status."""

from __future__ import annotations

import sys
from enum import IntEnum
from functools import partial
from typing import Any, Final

from airflow_provider.control.history.builder import note_history
from airflow_provider.control.history.topic import write_history
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.waiting.condition_wait import wait_for
from airflow_provider.control.waiting.evaluation import Condition, Outcome
from airflow_provider.errors import DeadlineError, InstanceError
from airflow_provider.kafka.connection import KafkaConnection


class ExitStatus(IntEnum):
    """The same for every command."""

    FINE = 0
    """Done, or all is as it should be."""
    ERROR = 1
    """One of the package's errors; its name and its text are one line on standard error."""
    USAGE = 2
    """Wrong arguments; argparse says which, and exits itself."""
    NO = 3
    """A check says no: `status --check`, `topics`, `failover` with something left to a person, a drill that failed."""
    SKIPPED = 4
    """A drill could not begin, or measured nothing."""
    RESTART = 75
    """`run --supervised`: it shut down cleanly because it is to be started again, as after an upgrade."""
    PERMANENT = 78
    """`run --supervised`: a restart would meet the same error; a person has to correct the job or a setting first."""
    INTERRUPTED = 130
    """Ctrl-C."""


_CONTROLS: Final = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Without what would command the terminal: texts of other programs, keys of records and errors are in it."""
    return text.translate(_CONTROLS)


def note(cluster: KafkaConnection, application_id: str, *records: HistoryRecord) -> bool:
    """As `note_history` does; the warning goes to standard error."""
    return note_history(partial(write_history, cluster), application_id, records, warn=say)


def await_condition(
    cluster: KafkaConnection,
    application_id: str,
    condition: Condition,
    timeout_s: float,
    timeouts: Timeouts | None = None,
    advice: str = "Correct the cause, then run the command again.",
) -> dict[str, Any]:
    """The condition's result, as plain values, once it is met.

    Args:
        advice: what a person does where it cannot be met any more.
    """
    found = wait_for(cluster, application_id, condition, timeout_s=timeout_s, timeouts=timeouts, say=say_waiting)
    match found.outcome:
        case Outcome.MET:
            return found.result
        case Outcome.FAILED:
            raise InstanceError(f"Waited for {found.waited_for}, which cannot happen any more: {found.seen}. {advice}")
        case Outcome.WAITING:
            raise DeadlineError(
                f"Waited {found.waited_s:g} s for {found.waited_for}. Last seen: {found.seen}. Look at the instances' "
                "logs, or allow more time."
            )


def say(line: str) -> None:
    """Tell a person beside the result."""
    print(line, file=sys.stderr, flush=True)


def say_waiting(seen: str) -> None:
    """Tell a person what is the case while something is waited for."""
    say(f"waiting: {seen}")
