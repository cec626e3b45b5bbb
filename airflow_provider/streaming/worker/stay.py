"""A worker that stays: it answers the driver's calls over a line, and processes what its sources bring meanwhile."""

from __future__ import annotations

import time
from typing import Final

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.control.records.status import TaskStatus
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.line import ASK, BUSY, HANG_UP, IDLE, LET, Line
from airflow_provider.streaming.worker.tasks.plan import CallReport, LookedUp, SlotPlan, SlotWork

_REPORT_EVERY_S: Final = 0.2
_LONGEST_WAIT_S: Final = 5.0
"""After which a consumer to which nothing comes is looked at."""


class StayingWorker:
    """Carries out one stay.

    Args:
        line: to its driver; closed by whoever opened it.
    """

    def __init__(self, slot: Slot, line: Line) -> None:
        self._slot, self._line = slot, line
        self._report_at = 0.0
        self._untold = False
        self._called_at = 0.0
        self._asked = set[int]()

    def stay(self, plan: SlotPlan, seconds: float) -> None:
        """Answer the call of the plan and those that follow, until the driver hangs up or the time is over.

        Raises:
            LineLostError: the driver is gone, or wants no more of it.
            Exception: of the slot; the next call begins again from what is stored.
        """
        until = time.monotonic() + seconds
        work: SlotWork = plan
        self._answer(work)
        while (left := until - time.monotonic()) > 0:
            more = self._read(work)
            due_s = self._report_at - time.monotonic() if self._untold else left
            if self._line.wait(0.0 if more else min(left, due_s, _LONGEST_WAIT_S), self._slot.ready):
                word = self._line.receive()
                if word == HANG_UP:
                    break
                if word.startswith(LET):
                    self._let_through(int(word.removeprefix(LET)))
                else:
                    work = from_json(word, SlotWork)
                    self._answer(work)
            if self._untold and time.monotonic() >= self._report_at:
                self._tell(self._slot.report(work), None)
        if self._untold:
            self._tell(self._slot.report(work), None)

    def _answer(self, work: SlotWork) -> None:
        self._called_at = time.monotonic()
        statuses = self._slot.call(work, (), False)
        self._tell(statuses, work.call, self._slot.look_up(work.lookups) if work.lookups else ())

    def _read(self, work: SlotWork) -> bool:
        """Process what has come; returns whether more may have."""
        rows = False

        def on_rows() -> None:
            nonlocal rows
            if not rows:
                self._line.send(BUSY)
            rows = True

        clock_ms = work.clock_ms
        if clock_ms is not None:
            clock_ms += int((time.monotonic() - self._called_at) * 1000)
        more = self._slot.read_sources(work, clock_ms, on_rows)
        if rows:
            self._line.send(IDLE)
            self._untold = True
        for stage in self._slot.held:
            if stage not in self._asked:
                self._asked.add(stage)
                self._line.send(ASK + str(stage).encode())
        return more

    def _let_through(self, stage: int) -> None:
        self._asked.discard(stage)
        self._slot.let_through(stage)

    def _tell(self, statuses: tuple[TaskStatus, ...], call: int | None, looked_up: tuple[LookedUp, ...] = ()) -> None:
        self._report_at, self._untold = time.monotonic() + _REPORT_EVERY_S, False
        self._line.send(to_json(CallReport(statuses, call=call, lost=self._slot.lost.all, looked_up=looked_up)))
