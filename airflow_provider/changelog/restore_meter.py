"""How far a restore is, and how fast it goes."""

from __future__ import annotations

import time
from collections import deque

__all__ = ["RestoreMeter"]

_RATE_WINDOW_S = 5.0


class RestoreMeter:
    """Counts what a restore applies, and forecasts from that. One meter measures one restore."""

    def __init__(self) -> None:
        now = time.monotonic()
        self.records = 0
        self.bytes = 0
        self._begun = now
        self._took_s: float | None = None
        self._samples: deque[tuple[float, int]] = deque([(now, 0)])

    def add(self, records: int, record_bytes: int) -> None:
        """Count what was applied just now.

        Args:
            records: changelog records.
            record_bytes: the size of their keys and values.
        """
        now = time.monotonic()
        self.records += records
        self.bytes += record_bytes
        self._samples.append((now, self.records))
        while len(self._samples) > 2 and now - self._samples[0][0] > _RATE_WINDOW_S:
            self._samples.popleft()

    def complete(self) -> None:
        """Note that the end of the changelog was reached; the first time counts."""
        if self._took_s is None:
            self._took_s = self.elapsed_s

    @property
    def completed(self) -> bool:
        """Whether the end of the changelog was reached once."""
        return self._took_s is not None

    @property
    def elapsed_s(self) -> float:
        """Seconds that the restore took, or takes so far."""
        return time.monotonic() - self._begun if self._took_s is None else self._took_s

    @property
    def records_per_s(self) -> float:
        """The recent rate of applying."""
        (t0, n0), (t1, n1) = self._samples[0], self._samples[-1]
        return (n1 - n0) / (t1 - t0) if t1 > t0 else 0.0

    def bytes_left(self, lag_records: int | None) -> int | None:
        """An estimate from the mean size of the records so far; None before there were any.

        Args:
            lag_records: how many are left; None when unknown.
        """
        return None if lag_records is None or not self.records else lag_records * self.bytes // self.records

    def caught_up_in_s(self, lag_records: int | None) -> float | None:
        """Forecast of when the lag is gone, at the recent rate; None when unknown.

        Args:
            lag_records: how many are left; None when unknown.
        """
        if lag_records == 0:
            return 0.0
        rate = self.records_per_s
        return None if lag_records is None or rate <= 0 else lag_records / rate
