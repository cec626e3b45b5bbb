"""Why the rows of a task do not come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.error_decision import class_of_kind, retry_pause_s, stops_a_running_task
from airflow_provider.errors import ErrorClass, StepError
from airflow_provider.streaming.driver.spark_error import Cause

__all__ = ["QueryFailure"]

_MAX_TRIES: Final = 5


@dataclass(frozen=True, kw_only=True)
class QueryFailure:
    """What ended the last query of a task, or kept it from starting.

    Args:
        cause: what was raised.
        generation: of the task's plan; a newer one is tried again.
        replay: of the task's plan; where another one is asked for, it is tried again too.
        tries: how many queries of the task ended so, one after the other.
        alone: whether the last of them read no other task.
        at: when it ended, in monotonic seconds.
    """

    cause: Cause
    generation: int
    replay: str | None = None
    tries: int = 1
    alone: bool = False
    at: float = 0.0

    @property
    def given_up(self) -> bool:
        """Whether the task fails: at once where every try meets the same, else after some of its own.

        It is failed until a query of it has run for a while.

        What a step cannot compute may be another task's record, until the query reads one alone.

        Brokers that do not answer are waited for without a limit: nothing else could be done without them.
        """
        match class_of_kind(self.cause.kind):
            case ErrorClass.TRANSIENT | ErrorClass.OWNER:
                return False
            case ErrorClass.JOB if self.cause.kind == StepError.__name__:
                return self.alone
            case ErrorClass.JOB | ErrorClass.ACCESS:
                return stops_a_running_task(self.cause.kind)
            case ErrorClass.RECORD:
                return True
            case _:
                return self.alone and self.tries >= _MAX_TRIES

    def waits(self, now: float) -> bool:
        """Whether no further query is started for the task: one that was given up is tried again where that may help.

        Args:
            now: monotonic seconds.
        """
        if not self.given_up:
            return False
        free_tries = _MAX_TRIES - 1 if class_of_kind(self.cause.kind) is ErrorClass.HOST else 0
        pause_s = retry_pause_s(self.cause.kind, self.tries - free_tries)
        return pause_s is None or now < self.at + pause_s
