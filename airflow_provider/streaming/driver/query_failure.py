"""Why the rows of a task do not come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.error_decision import class_of_kind, stops_a_running_task
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
    """

    cause: Cause
    generation: int
    replay: str | None = None
    tries: int = 1
    alone: bool = False

    @property
    def given_up(self) -> bool:
        """Whether the task fails: at once where every try meets the same, else after some of its own.

        What a step cannot compute may be another task's record, until the query reads one alone.

        Brokers that do not answer are waited for without a limit: nothing else could be done without them.
        """
        match class_of_kind(self.cause.kind):
            case ErrorClass.TRANSIENT | ErrorClass.OWNER:
                return False
            case ErrorClass.JOB if self.cause.kind == StepError.__name__:
                return self.alone
            case ErrorClass.JOB:
                return stops_a_running_task(self.cause.kind)
            case ErrorClass.RECORD:
                return True
            case _:
                return self.alone and self.tries >= _MAX_TRIES
