"""The entry into a Python worker: a thin function, because what is given to Spark is pickled with what it names.

A worker keeps its globals between calls, and the driver gives each slot a pool of workers of its own, so the slot's
stores and producers stay open here from one micro-batch to the next.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from airflow_provider.control.status import TaskStatus
from airflow_provider.streaming.arrival import ahead
from airflow_provider.streaming.garbage import freeze
from airflow_provider.streaming.plan import SlotPlan
from airflow_provider.streaming.slot import Slot

__all__ = ["REPORT_SCHEMA", "call", "decode_report"]

REPORT_SCHEMA = "report binary"

_slot: Slot | None = None
_of: tuple[str, str, int] | None = None


def call(plan: SlotPlan, max_failures: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: do what the plan says, yield one row with the status of every task.

    Args:
        plan: from the driver.
        max_failures: Spark's ``spark.task.maxFailures``.
        batches: the micro-batch's rows, or one row with `ROUND_COLUMN`.
    """
    context = TaskContext.get()
    attempts_left = context is not None and context.attemptNumber() + 1 < max_failures
    statuses = _current(plan).call(plan, ahead(batches), attempts_left)
    yield pa.RecordBatch.from_pydict({"report": [msgspec.json.encode(statuses)]})


def decode_report(report: bytes) -> tuple[TaskStatus, ...]:
    """What `call` yielded."""
    return msgspec.json.decode(report, type=tuple[TaskStatus, ...])


def _current(plan: SlotPlan) -> Slot:
    global _slot, _of  # the worker's memory between two calls is what this module is for
    of = (plan.job.application_id, plan.settings.instance, plan.settings.incarnation)
    if _slot is None or _of != of:
        if _slot is not None:
            _slot.close()
        _slot, _of = Slot(plan), of
        atexit.register(_slot.close)
        freeze()
    return _slot
