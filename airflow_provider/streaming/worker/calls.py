"""The entry into a Python worker: a thin function, because what is given to Spark is pickled with what it names.

A worker keeps its globals between calls, and the driver gives each slot a pool of workers of its own, so the slot's
stores and producers stay open here from one micro-batch to the next.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.control.records.status import TaskStatus
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.step.arrival import RowMeter, freeze, prefetch
from airflow_provider.streaming.worker.tasks.plan import SlotPlan

REPORT_SCHEMA = "report binary"


@dataclass(frozen=True)
class CallReport:
    """What a call answers."""

    statuses: tuple[TaskStatus, ...]
    rows: int = 0
    bytes: int = 0


_slot: Slot | None = None
_of: tuple[str, str, int] | None = None


def call(plan: SlotPlan, max_failures: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: do what the plan says, yield one row with a `CallReport`.

    Args:
        batches: the micro-batch's rows, or one row with `ROUND_COLUMN`.
    """
    context = TaskContext.get()
    attempts_left = context is not None and context.attemptNumber() + 1 < max_failures
    meter = RowMeter(batches)
    statuses = _current(plan).call(plan, prefetch(iter(meter)), attempts_left)
    report = CallReport(statuses, meter.rows, meter.bytes)
    yield pa.RecordBatch.from_pydict({"report": [to_json(report)]})


def decode_report(report: bytes) -> CallReport:
    """What `call` yielded."""
    return from_json(report, CallReport)


def _current(plan: SlotPlan) -> Slot:
    global _slot, _of  # the worker's memory between two calls is what this module is for
    of = (plan.settings.application_id, plan.settings.instance, plan.settings.incarnation)
    if _slot is None or _of != of:
        if _slot is not None:
            _slot.close()
        _slot, _of = Slot(plan), of
        atexit.register(_slot.close)
        freeze()
    return _slot
