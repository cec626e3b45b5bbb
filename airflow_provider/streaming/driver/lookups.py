"""Answers what the application's stores hold of keys: takes questions, has the slots look, sends what they found."""

from __future__ import annotations

import logging
import math
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Final, Protocol

from airflow_provider.common.in_thread import Background
from airflow_provider.control.records.lookup import Answer, Question
from airflow_provider.error_decision import class_of
from airflow_provider.error_text import LastReported, error_text
from airflow_provider.errors import ConfigurationError, ErrorClass, StatefulStreamsError
from airflow_provider.streaming.expressions.row_functions import key_of_texts
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.plan import KeyLookup, LookedUp

log = logging.getLogger(__name__)

_POLL_S: Final = 0.05
"""How long an answer of a slot may wait."""
_CALM_POLL_S: Final = 1.0
_CALM_AFTER_S: Final = 10.0
"""After a question its answers have come, or nobody waits for them any more."""
_PAUSE_S: Final = 5.0
_TRY_AGAIN_S: Final = 60.0
"""Where a person has to do something."""
_SILENT_S: Final = 60.0
"""After which a consumer to which nothing comes is looked at."""
_BUSY: Final = "it is asked for more than it looks up beside its work: ask again later"


class Channel(Protocol):
    """What is needed here of a `LookupChannel`."""

    def send(self, record: Question | Answer) -> None:
        """Send, and wait until it is stored."""

    def receive(self, timeout_s: float) -> Question | Answer | None:
        """The next record; None where none comes in that time."""

    def close(self) -> None:
        """Leave the cluster."""

    @property
    def stalled(self) -> bool:
        """Whether there is more than was read."""


class Slot(Protocol):
    """What is needed here of a `SlotDriver`."""

    def look_up(self, lookup: KeyLookup) -> bool:
        """Have it looked up with one of the next calls; False where too much waits already."""


def key_lookup(question: Question, stages: Mapping[int, StageSpec]) -> KeyLookup:
    """Where a worker finds what a question asks for.

    Raises:
        ConfigurationError: there is no such store, or its keys have another number of columns.
    """
    stores = {spec.store.name: (number, spec) for number, spec in stages.items() if spec.keeps_state}
    if question.store not in stores:
        there = ", ".join(map(repr, stores)) or "none"
        raise ConfigurationError(f"The job has no store {question.store!r}, but {there}: correct its name.")
    number, spec = stores[question.store]
    # One that lets rows through has the name of a key of several columns alone, which is that of all of them.
    columns = spec.operation.written_keys(spec.input.key_name) or tuple(spec.input.key_name.split(","))
    if len(columns) != len(question.key):
        raise ConfigurationError(
            f"The store {question.store!r} is kept by {', '.join(columns)}, and the key has {len(question.key)} "
            "value(s): give one for each column."
        )
    return KeyLookup(question=question.id, stage=number, group=key_of_texts(question.key).encode())


class LookupService(Background):
    """A thread beside the instance: what goes wrong in it is a line in the log, and a lookup that nobody answers.

    Args:
        connect: opens the channel; asked in the thread, again after each failure.
        slots: of the instance.
    """

    def __init__(
        self,
        instance: str,
        stages: Mapping[int, StageSpec],
        slots: Sequence[Slot],
        connect: Callable[[], Channel],
    ) -> None:
        super().__init__("lookups")
        self._instance, self._stages, self._slots, self._connect = instance, stages, slots, connect
        self._found = queue.SimpleQueue[LookedUp]()
        self._reported = LastReported()

    def answered(self, found: Sequence[LookedUp]) -> None:
        """What a slot found; called by its thread, and sent by this one."""
        for one in found:
            self._found.put(one)

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                with closing(self._connect()) as channel:
                    self._serve(channel)
            except Exception as error:  # nobody would answer any more without this thread
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        if self._reported.is_news(error):
            log.warning("keys cannot be looked up for now: %s: %s", type(error).__name__, error)
        by_itself = not isinstance(error, StatefulStreamsError) or class_of(error) is ErrorClass.TRANSIENT
        self.stopped.wait(_PAUSE_S if by_itself else _TRY_AGAIN_S)

    def _serve(self, channel: Channel) -> None:
        heard_at, asked_at = time.monotonic(), -math.inf
        while not self.stopped.is_set():
            calm = time.monotonic() - asked_at > _CALM_AFTER_S
            record = channel.receive(_CALM_POLL_S if calm else _POLL_S)
            self._reported.over()
            if isinstance(record, Question) and (refused := self._ask(record)) is not None:
                channel.send(refused)
            while not self._found.empty():
                for answer in self._answers(self._found.get()):
                    channel.send(answer)
            if record is not None:
                heard_at = asked_at = time.monotonic()
            elif time.monotonic() - heard_at > _SILENT_S:
                heard_at = time.monotonic()
                if channel.stalled:
                    return

    def _answers(self, found: LookedUp) -> list[Answer]:
        """A record for each copy that holds something, which may be much, and one for those that do not."""
        having = [(copy,) for copy in found.copies if copy.states]
        without = tuple(copy for copy in found.copies if not copy.states)
        parts = [*having, *([without] if without else [])]
        return [Answer(question=found.question, instance=self._instance, copies=part) for part in parts]

    def _ask(self, question: Question) -> Answer | None:
        """Have the slots look; an answer only where they do not."""
        try:
            lookup = key_lookup(question, self._stages)
        except ConfigurationError as error:
            return Answer(question=question.id, instance=self._instance, refusal=error_text(error))
        taken = [slot.look_up(lookup) for slot in self._slots]
        return None if all(taken) else Answer(question=question.id, instance=self._instance, problem=_BUSY)
