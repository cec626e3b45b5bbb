"""Where a restore begins: a pure verdict on a store and its changelog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.state.position import Position

__all__ = ["Start", "start"]

_HOUR_MS: Final = 3_600_000
_CLOCK_JUMP_MS: Final = _HOUR_MS
"""How far a host's clock may have been set back unnoticed."""


@dataclass(frozen=True)
class Start:
    """Where to read from.

    Args:
        offset: of the first record to apply.
        fresh: whether the store has to be emptied first.
        reason: why, in one line.
    """

    offset: int
    fresh: bool
    reason: str


def start(
    position: Position | None, changelog: str, low: int, high: int, now_ms: int, delete_retention_ms: int
) -> Start:
    """Resume a store from its position where that is safe, else restore it afresh.

    Args:
        position: the store's; None for an empty one.
        changelog: the topic that is about to be read.
        low: first offset that the log still has.
        high: offset after its last record.
        now_ms: epoch ms of the host that applied last.
        delete_retention_ms: how long the changelog keeps deletions. A store that slept longer may have missed one. The
            host's clock may have been set back meanwhile by an hour, or by a quarter of this if that is less: so much
            earlier a store counts as too old.
    """
    if position is None:
        return Start(low, False, "the store is empty")
    if position.changelog != changelog:
        return Start(low, True, f"the store was applied from {position.changelog!r}")
    if position.offset > high:
        return Start(low, True, f"position {position.offset} lies past the changelog's end {high}: it was recreated")
    if position.offset < low:
        return Start(low, True, f"position {position.offset} lies before the changelog's start {low}: it was truncated")
    idle_ms, jump_ms = now_ms - position.applied_at_ms, min(_CLOCK_JUMP_MS, max(0, delete_retention_ms // 4))
    if idle_ms < -jump_ms:
        ahead = -idle_ms / _HOUR_MS
        return Start(low, True, f"applied {ahead:.1f} h ahead of this host's clock: how long it slept is not known")
    if idle_ms > delete_retention_ms - jump_ms:
        hours = idle_ms / _HOUR_MS
        return Start(
            low, True, f"not applied for {hours:.1f} h, longer than delete.retention.ms is sure to keep deletions"
        )
    return Start(position.offset, False, f"resumed at {position.offset}")
