"""The driver's side of a worker that stays: calls over a line, for as long as its one call of Spark's lasts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Final, Protocol

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.streaming.planner.compiled_job import CompiledJob
from airflow_provider.streaming.worker.tasks.line import (
    ASK,
    BUSY,
    HANG_UP,
    IDLE,
    LET,
    Line,
    LineAddress,
    LineLostError,
)
from airflow_provider.streaming.worker.tasks.plan import CallReport, SlotWork, Stay, WorkerSource

log = logging.getLogger(__name__)

_LONGEST_S: Final = 30.0
_ADMIT_S: Final = 600.0
"""A worker comes as soon as Spark has started it; until then nothing else could be called either."""
_LOOK_S: Final = 1.0


def sources_of_workers(job: CompiledJob, waiting: Collection[int]) -> dict[int, WorkerSource]:
    """By stage, the sources that workers read themselves: those of all stages, or none, and Spark reads.

    A worker cannot take the steps of Spark SQL, nor what a person has set for Spark's consumer. One that stays holds a
    core, which Spark's queries for other stages would wait for.

    Args:
        waiting: the stages whose rows wait for a table (`stages_before`).
    """
    found = {
        stage.number: WorkerSource(
            topic=source.topic,
            most_records=source.max_offsets_per_trigger,
            timestamps=source.keeps_timestamps,
            goes_on_after_loss=source.goes_on_after_loss,
            waits=stage.number in waiting,
        )
        for stage in job.stages
        if (source := stage.source).decoded_by_worker and not source.kafka_options
    }
    return found if len(found) == len(job.stages) else {}


class StayOverError(Exception):
    """A stay ended in good order before it answered a call."""


class DriverDoor(Protocol):
    """What is needed here of a `Door`."""

    @property
    def address(self) -> LineAddress: ...
    def admit(self, timeout_s: float) -> Line | None: ...
    def close(self) -> None: ...


class StayListener(Protocol):
    """Who is told what happens in a stay, in threads of the stay."""

    def told(self, report: CallReport) -> None:
        """The worker said something by itself."""

    def batch_done(self) -> None:
        """It has processed rows."""

    def wait_for_tables(self, stage: int, given_up: Callable[[], bool]) -> bool:
        """Wait until rows of a stage that it has read may be processed; False where that was given up."""

    def stay_over(self) -> None:
        """It has returned, or failed."""


class WorkerStay:
    """One stay of a worker. Calls come from one thread at a time.

    Args:
        door: at which the worker is awaited; closed here.
        run: has Spark call the worker, and returns what it returned when the stay is over.
    """

    def __init__(self, door: DriverDoor, run: Callable[[], CallReport], listener: StayListener) -> None:
        self._door, self._run, self._listener = door, run, listener
        self._changed, self._saying = threading.Event(), threading.Lock()
        self._line: Line | None = None
        self._answer: CallReport | None = None
        self._returned: CallReport | None = None
        self._error: Exception | None = None
        self.began_at = time.monotonic()
        self.busy_since: float | None = None
        """When the worker began to process rows, in monotonic seconds; None while it does not."""
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for target, name in ((self._run_on, "worker-stay"), (self._listen_on, "worker-line"))
        ]

    def begin(self) -> None:
        """Call the worker, by Spark; the work of that call is answered as that of any other."""
        for thread in self._threads:
            thread.start()

    @property
    def over(self) -> bool:
        """Whether Spark's call has returned, in whatever way."""
        return self._returned is not None or self._error is not None

    @property
    def failed(self) -> bool:
        """Whether it ended with an error."""
        return self._error is not None

    @property
    def connected(self) -> bool:
        """Whether the worker has come to the line."""
        return self._line is not None

    def call(self, work: SlotWork) -> CallReport:
        """Have the worker do more, and wait for its answer.

        Raises:
            StayOverError: the stay ended before.
            Exception: of Spark or of the worker.
        """
        self._say(to_json(work))
        return self.answer_to(work.call)

    def answer_to(self, call: int) -> CallReport:
        """Wait for the answer to a call.

        Raises:
            StayOverError: the stay ended before.
            Exception: of Spark or of the worker.
        """
        while True:
            self._changed.clear()
            if (answer := self._answer) is not None and answer.call == call:
                return answer
            if self._error is not None:
                raise self._error
            if self._returned is not None:
                if self._returned.call == call:
                    return self._returned
                raise StayOverError
            self._changed.wait(_LOOK_S)

    def end(self) -> None:
        """Have the worker return, after the micro-batch under way, and wait for it.

        Raises:
            Exception: of Spark or of the worker.
        """
        self._door.close()
        self._say(HANG_UP)
        while not self.over:
            self._changed.clear()
            if not self.over:
                self._changed.wait(_LOOK_S)
        if self._error is not None:
            raise self._error

    def _say(self, word: bytes) -> None:
        if self._line is not None:
            try:
                with self._saying:
                    self._line.send(word)
            except LineLostError:
                log.debug("the line was lost: the worker returns, or has died")

    # -- its threads ---------------------------------------------------------------------------------------------

    def _run_on(self) -> None:
        try:
            self._returned = self._run()
        except Exception as error:
            self._error = error
        self._door.close()
        self.busy_since = None
        self._changed.set()
        self._listener.stay_over()

    def _listen_on(self) -> None:
        line = self._door.admit(_ADMIT_S)
        self._door.close()
        if line is None:
            return
        self._line = line
        try:
            while True:
                self._take(line.receive())
        except LineLostError:
            self._changed.set()
        finally:
            line.close()

    def _take(self, word: bytes) -> None:
        if word == BUSY:
            self.busy_since = time.monotonic()
        elif word == IDLE:
            self.busy_since = None
            self._listener.batch_done()
        elif word.startswith(ASK):
            threading.Thread(target=self._let, args=(word.removeprefix(ASK),), name="table-wait", daemon=True).start()
        else:
            report = from_json(word, CallReport)
            if report.call is None:
                self._listener.told(report)
            else:
                self._answer = report
                self._changed.set()

    def _let(self, stage: bytes) -> None:
        if self._listener.wait_for_tables(int(stage), lambda: self.over):
            self._say(LET + stage)


def stay_of(door: DriverDoor, call_timeout_s: float) -> Stay:
    """What a worker is told of a stay: it returns in time, or Spark would take it for one that hangs."""
    return Stay(line=door.address, seconds=min(_LONGEST_S, call_timeout_s / 4))
