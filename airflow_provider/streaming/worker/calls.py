"""The entry into a Python worker: a thin function, because what is given to Spark is pickled with what it names.

A worker keeps its globals between calls, and the driver gives each slot a pool of workers of its own, so the slot's
stores and producers stay open here from one micro-batch to the next.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.errors import WorkerError
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.stay import StayingWorker
from airflow_provider.streaming.worker.step.arrival import RowMeter, drained, freeze, prefetch
from airflow_provider.streaming.worker.tasks.line import Line, LineAddress, LineLostError, call_driver
from airflow_provider.streaming.worker.tasks.plan import CallReport, SlotPlan

log = logging.getLogger(__name__)

REPORT_SCHEMA = "report binary"


_slot: Slot | None = None
_of: tuple[str, str, int] | None = None


def call(plan: SlotPlan, max_failures: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: do what the plan says, yield one row with a `CallReport`.

    Args:
        batches: the micro-batch's rows, or one row with `ROUND_COLUMN`.
    """
    context = TaskContext.get()
    attempt = 0 if context is None else context.attemptNumber()
    if attempt and plan.stay is not None:
        # The attempt before may have been told more over its line than this plan says, which is older then.
        raise WorkerError("A worker that stayed ended with an error: the log of its executor says with which.")
    report = answer_of(_current(plan), plan, batches, attempt + 1 < max_failures)
    yield pa.RecordBatch.from_pydict({"report": [to_json(report)]})


def answer_of(
    slot: Slot,
    plan: SlotPlan,
    batches: Iterable[pa.RecordBatch],
    attempts_left: bool,
    connect: Callable[[LineAddress], Line] = call_driver,
) -> CallReport:
    """Do what a plan says, and stay where it says that, too.

    Args:
        connect: takes a worker that stays to its driver; where nobody answers there, it returns at once.
    """
    if plan.stay is not None:
        list(drained(batches))
        try:
            line = connect(plan.stay.line)
        except OSError as error:
            log.warning("the driver is not reached at %s:%d: %s", plan.stay.line.host, plan.stay.line.port, error)
        else:
            with contextlib.suppress(LineLostError), contextlib.closing(line):
                StayingWorker(slot, line).stay(plan, plan.stay.seconds)
            return CallReport(())
    meter = RowMeter(batches)
    statuses = slot.call(plan, prefetch(iter(meter)), attempts_left)
    looked_up = slot.look_up(plan.lookups) if plan.lookups else ()
    return CallReport(statuses, meter.rows, meter.bytes, call=plan.call, looked_up=looked_up)


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
