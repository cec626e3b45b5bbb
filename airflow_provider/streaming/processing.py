"""A micro-batch's rows, handed to the tasks that may process them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from airflow_provider.control.status import TaskState
from airflow_provider.errors import BrokerUnreachableError, FencedError, StateError, WorkerError
from airflow_provider.streaming.active_step import active_step
from airflow_provider.streaming.attempts import Attempts
from airflow_provider.streaming.following import Following
from airflow_provider.streaming.holdings import Holdings
from airflow_provider.streaming.plan import SlotPlan
from airflow_provider.streaming.task import Task

__all__ = ["Processing"]

_CATCH_UP_S = 0.5


class Processing:
    """Takes the active steps of a slot's tasks.

    Args:
        held: the tasks.
        following: catches up what has little left.
    """

    def __init__(self, held: Holdings, following: Following) -> None:
        self._held, self._following = held, following
        self._attempts = Attempts(Path(held.settings.run_dir))

    def process(self, parts: Iterable[tuple[int, pa.Table]], plan: SlotPlan, attempts_left: bool) -> set[int]:
        """Process what can be of tasks' rows; returns the tasks whose rows were passed over."""
        passed_over = set[int]()
        for number, part in parts:
            task = self._held.tasks.get(number)
            if number not in plan.rows_of or number in passed_over:
                continue
            if task is not None and task.state is TaskState.RESTORING:
                # A fresh worker after a crash: what it lacks is most often little.
                self._following.follow(time.monotonic() + _CATCH_UP_S)
            if task is not None and task.state is TaskState.RUNNING:
                self._step(task, part, attempts_left, plan.max_deaths)
            else:
                passed_over.add(number)  # the driver sees it, and a new query begins where the task stopped
        return passed_over

    def _step(self, task: Task, rows: pa.Table, attempts_left: bool, max_deaths: int) -> None:
        try:
            self._refuse_deadly(task, max_deaths)
            active_step(task, rows, self._held.reader.consumer)
        except FencedError as error:
            task.give_up(error)
        except StateError as error:
            with self._held.own_trouble(task.number):
                raise error
        except Exception as error:
            # What the commit did is in the changelog, not in the store: own and restore again before going on.
            task.disown()
            if isinstance(error, BrokerUnreachableError) or (attempts_left and not isinstance(error, WorkerError)):
                raise
            task.fail(error)
        finally:
            self._attempts.end(task.number)

    def _refuse_deadly(self, task: Task, max_deaths: int) -> None:
        died = self._attempts.begin(task.number, task.plan.generation, task.source_offset)
        if died >= max_deaths:
            raise WorkerError(
                f"{died} worker(s) ended in the middle of the batch of {task.job.source_topic}[{task.number}] that "
                f"begins at offset {task.source_offset or 0}: they crashed, or took longer than call_timeout_s "
                f"({self._held.settings.call_timeout_s:g} s) and were ended. Look into the instance's log and at the "
                "records there, then mend the job's function or its libraries."
            )
