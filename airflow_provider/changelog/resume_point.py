"""Where a restore begins: a pure verdict on a store and its changelog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.state.position import Position

__all__ = ["ResumePoint", "find_resume_point", "slept_too_long"]

_HOUR_MS: Final = 3_600_000
_CLOCK_JUMP_MS: Final = _HOUR_MS
"""How far a host's clock may have been set back unnoticed."""


@dataclass(frozen=True)
class ResumePoint:
    """Where to read from.

    Args:
        offset: of the first record to apply.
        fresh: whether the store has to be emptied first.
        reason: why, in one line.
    """

    offset: int
    fresh: bool
    reason: str


def find_resume_point(
    position: Position | None,
    changelog: str,
    low: int,
    high: int,
    now_ms: int,
    delete_retention_ms: int,
    *,
    holds_data: bool,
) -> ResumePoint:
    """Resume a store from its changelog's position where that is safe, else restore it afresh.

    Args:
        position: of the task's stores; None while all are empty.
        changelog: the topic that is about to be read.
        low: first offset that the log still has.
        high: offset after its last record.
        now_ms: epoch ms of the host that applied.
        delete_retention_ms: how long the changelog keeps deletions. A store that slept longer may have missed one. The
            host's clock may have been set back since by an hour, or by a quarter of this if that is less: so much
            earlier a store counts as too old.
        holds_data: whether the changelog's store has any key; one that has, without a position, was filled from
            elsewhere.
    """
    at = None if position is None else position.changelogs.get(changelog)
    if at is None:
        # The commit of other stores is not one of this store: what it says is processed is in none of its values.
        if not holds_data and (position is None or position.commit is None):
            return ResumePoint(low, False, "the store is empty")
        others = ", ".join(map(repr, position.changelogs)) if position is not None else ""
        return ResumePoint(low, True, f"the store was applied from {others or 'an unknown changelog'}")
    if at.offset > high:
        return ResumePoint(
            low, True, f"position {at.offset} lies past the changelog's end {high}: it was created again"
        )
    if at.offset < low:
        return ResumePoint(low, True, f"position {at.offset} lies before the changelog's start {low}: it was truncated")
    if (why := slept_too_long(at.complete_at_ms, now_ms, delete_retention_ms)) is not None:
        return ResumePoint(low, True, why)
    return ResumePoint(at.offset, False, f"resumed at {at.offset}")


def slept_too_long(complete_at_ms: int, now_ms: int, delete_retention_ms: int) -> str | None:
    """Why a store may have missed a deletion that the changelog does not keep any more; None when it cannot have.

    Asked before a store is resumed, and again when it has reached the end: who reads for longer than deletions are kept
    may have read a key before, and its deletion after, that was compacted away.

    Args:
        complete_at_ms: when it was known last that all is applied, epoch ms of the host that applied.
        now_ms: epoch ms of the same host.
        delete_retention_ms: as in `find_resume_point`.
    """
    idle_ms, jump_ms = now_ms - complete_at_ms, min(_CLOCK_JUMP_MS, max(0, delete_retention_ms // 4))
    if idle_ms < -jump_ms:
        return f"applied {-idle_ms / _HOUR_MS:.1f} h ahead of this host's clock: how old the store is cannot be known"
    if idle_ms > delete_retention_ms - jump_ms:
        return (
            f"not applied to the end for {idle_ms / _HOUR_MS:.1f} h, longer than delete.retention.ms is sure to keep "
            "deletions"
        )
    return None
