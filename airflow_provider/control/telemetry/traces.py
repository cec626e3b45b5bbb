"""Failovers and restores as traces: from the records of the history, and sent by the watcher."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider.common.clock import now_ms
from airflow_provider.common.in_thread import RepeatedLook
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord, history_value

_DAY_MS: Final = 86_400_000
_TRACED: Final = (HistoryKind.FAILOVER, HistoryKind.RESTORE)


@dataclass(frozen=True, kw_only=True)
class Span:
    """A part of a trace.

    Args:
        trace_id: 128 bits, never 0.
        id: 64 bits, never 0.
        parent: the id of the span around it; None for the trace's own.
        begin_ms: epoch ms, as ``end_ms``.
        error: why what it stands for failed; None where it did not.
    """

    name: str
    trace_id: int
    id: int
    parent: int | None
    begin_ms: int
    end_ms: int
    attributes: Mapping[str, str | int | float | Sequence[str]] = field(default_factory=dict)
    error: str | None = None


def spans_of(record: HistoryRecord) -> tuple[Span, ...]:
    """The trace of a failover or a restore that has ended; none of anything else.

    A failover's parts follow each other: ``detected``, ``decided``, ``owned``, ``restored`` (with a span for each
    task), ``first output``, ``repaired``. A part that is not known has no span, nor has what follows it. Clocks of
    several hosts time them (`RtoParts`): one that would end before it begins is empty.

    All ids are made of the application's and the record's own, so that what is sent twice is the same twice.
    """
    if record.kind not in _TRACED or record.ended_at_ms is None:
        return ()
    trace_id = _id(record, "trace", 16)

    def span(name: str, parent: Span | None, begin_ms: int, end_ms: int, **more: Any) -> Span:
        return Span(
            name=f"{name} {record.application_id}" if parent is None else name,
            trace_id=trace_id,
            id=_id(record, "" if parent is None else name, 8),
            parent=None if parent is None else parent.id,
            begin_ms=begin_ms,
            end_ms=max(begin_ms, end_ms),
            **more,
        )

    known = {
        "application": record.application_id,
        "incident.id": record.id,
        "cause": record.cause,
        "by": record.by,
        "evidence": record.evidence or None,
        "instances": record.instances,
        "tasks": [str(task) for task in record.tasks],
        "decisions": [str(decision) for decision in record.decisions],
        "rto_ms": record.rto.total_ms,
        "lost_records": record.rpo.lost_records,
        "doubled_records": record.rpo.doubled_records,
    }
    error = record.reason or "failed" if record.outcome is HistoryOutcome.FAILED else None
    attributes = {word: value for word, value in known.items() if value is not None}
    root = span(record.kind.value, None, record.at_ms, record.ended_at_ms, attributes=attributes, error=error)
    spans = [root]
    for name, begin_ms, end_ms in _parts(record, root.end_ms):
        spans.append(part := span(name, root, begin_ms, end_ms))
        for restore in record.restores if name == "restored" else ():
            until_ms = min(end_ms, begin_ms + round(1000 * restore.took_s))
            of = {"instance": restore.instance, "records": restore.records, "bytes": restore.bytes}
            spans.append(span(f"restore {restore.task}", part, begin_ms, until_ms, attributes=of))
    return tuple(spans)


def _parts(record: HistoryRecord, end_ms: int) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of each part that is known."""
    restored_ms = round(1000 * max((restore.took_s for restore in record.restores), default=0.0))
    if record.kind is HistoryKind.RESTORE:
        yield "restored", record.at_ms, end_ms
        return
    at: int | None = record.at_ms
    for name, took_ms in record.rto.phases:
        # A failure that nobody timed began with its detection (`HistoryRecord.at_ms`): the next part begins there.
        if took_ms is None and name != "detected":
            at = None
        if at is None or took_ms is None:
            continue
        until = at + max(0, took_ms)
        if name == "first output":
            # Owned is fenced: the restore of a promoted copy lies before its first commit.
            middle = min(until, at + restored_ms)
            yield "restored", at, middle
            at = middle
        yield name, at, until
        at = until
    if at is not None:
        yield "repaired", at, max(at, end_ms)


def _id(record: HistoryRecord, part: str, size: int) -> int:
    named = "\0".join((record.application_id, record.kind.value, record.id, part))
    return int.from_bytes(hashlib.blake2b(named.encode(), digest_size=size).digest()) or 1


class TracePush(RepeatedLook):
    """Sends the trace of each failover and restore that was noted as ended within the last day, once it is taken.

    What was sent is remembered here alone: after a restart the day's are sent again, with the same ids. So each is sent
    at least once, unless nobody took it for a day, nobody watched, or the clock of who noted it was behind by a day;
    and again where its record was completed.

    Args:
        history: the records that were stored at a time or later, epoch ms.
        connect: makes what sends them or raises; called by the thread, and again where that failed.
    """

    def __init__(
        self,
        interval_s: float,
        history: Callable[[int], Iterable[HistoryRecord]],
        connect: Callable[[], Callable[[Sequence[Span]], None]],
    ) -> None:
        super().__init__("push-traces", interval_s, "the traces of failovers are not sent for now")
        self._history, self._connect = history, connect
        self._send: Callable[[Sequence[Span]], None] | None = None
        self._sent = frozenset[bytes]()

    def look(self) -> None:
        """See `RepeatedLook`."""
        self._send = self._send or self._connect()
        records = {history_value(record): record for record in self._history(now_ms() - _DAY_MS)}
        self._sent &= records.keys()
        refused: Exception | None = None
        for value, record in records.items():
            if value in self._sent:
                continue
            try:
                self._send(spans_of(record))
                self._sent |= {value}
            except Exception as error:  # one that nobody takes holds up no other
                refused = refused or error
        if refused is not None:
            raise refused
