"""What a task did as its partition's owner."""

from __future__ import annotations

import time

from airflow_provider.common.clock import now_ms

__all__ = ["Ownership"]


class Ownership:
    """The times and counts of a task that is, or was, the active one. `Task` knows when each happens."""

    def __init__(self) -> None:
        self.owned_at_ms: int | None = None
        """When every earlier owner was fenced, epoch ms; None for a standby."""
        self.first_commit_at_ms: int | None = None
        """When the first commit since the promotion returned, epoch ms; None before."""
        self.resumed_offset: int | None = None
        """Source offset of the last commit before this owner's first; None before it is known."""
        self.processed = 0
        """Input records of the commits since the promotion."""
        self._lost_at: float | None = None

    def begin(self) -> None:
        """The task is promoted, and has to fence."""
        self._lost_at = None
        self.first_commit_at_ms = None
        self.resumed_offset = None
        self.processed = 0

    def take(self) -> None:
        """Every earlier owner is fenced."""
        self.owned_at_ms = now_ms()

    def resume(self, source_offset: int | None) -> None:
        """The store is restored.

        Args:
            source_offset: of the last commit, with which it goes on; None where there is none.
        """
        self.resumed_offset = source_offset

    def count_commit(self, rows: int) -> None:
        """A micro-batch was committed.

        Args:
            rows: its input records.
        """
        self.first_commit_at_ms = self.first_commit_at_ms or now_ms()
        self.processed += rows

    def lose(self) -> None:
        """A newer owner has fenced this one."""
        self._lost_at = time.monotonic()

    @property
    def lost_for_s(self) -> float:
        """How long ago a newer owner fenced this one; 0 where none did since the promotion."""
        return 0.0 if self._lost_at is None else time.monotonic() - self._lost_at

    def end(self) -> None:
        """The task is demoted."""
        self.owned_at_ms = None
        self.resumed_offset = None
