"""The digest of a store that is written, kept up to date by what each write changes."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider.state.digest import sum_of_digests
from airflow_provider.state.digest_scan import DigestScan
from airflow_provider.state.time_spans import TimeSpans

__all__ = ["RunningDigest"]

Digests = Mapping[int, int]
"""By the start of the segment (`state.time_segments`), or of the last one of a span (`state.time_spans`); a store whose
keys begin with no time has one, at 0."""


class RunningDigest:
    """A base, and the sum of the changes since, of each segment of the store.

    The base is either known from the last commit, or scanned from the store as it stood; until that is
    done the digest is not known.
    """

    def __init__(self) -> None:
        self._base: Digests | None = None
        self._scan: DigestScan | None = None
        self._changes: Digests = {}
        self._expired_before: int | None = None

    def resume(self, known: Digests | None) -> None:
        """Go on from a digest that is known, or forget all; what was scanned is given up."""
        if self._scan is not None:
            self._scan.cancel()
        self._base, self._scan, self._changes, self._expired_before = known, None, {}, None

    def rebase(self, scan: DigestScan) -> None:
        """Go on from what a scan of the store, as it stands now, will find."""
        self.resume(None)
        self._scan = scan

    def after(self, change: Digests, expired_before: int | None = None) -> Digests | None:
        """What it will be after a change; None while it is not known.

        Args:
            change: what is added.
            expired_before: the segments that start earlier are dropped, and no span is cut; None for none.

        Raises:
            StoreCorruptedError: the scan found a part of the store that cannot be read.
        """
        if self._scan is not None and self._scan.done:
            scan, self._scan = self._scan, None
            self._base = scan.parts()
        if self._base is None:
            return None
        return _left(_sum(_sum(self._base, self._changes), change), _later(self._expired_before, expired_before))

    def add(self, change: Digests, expired_before: int | None = None, spans: TimeSpans | None = None) -> None:
        """The change was made.

        Args:
            change: as in `after`.
            expired_before: as in `after`.
            spans: for which digests are kept from now on; None for those of each segment.
        """
        self._expired_before = _later(self._expired_before, expired_before)
        changes = _left(_sum(self._changes, change), self._expired_before)
        if self._base is not None:
            self._base, changes = _folded(_left(_sum(self._base, changes), self._expired_before), spans), {}
        self._changes = _folded(changes, spans)


def _sum(one: Digests, other: Digests) -> Digests:
    return {segment: sum_of_digests(one.get(segment, 0), other.get(segment, 0)) for segment in {**one, **other}}


def _folded(digests: Digests, spans: TimeSpans | None) -> Digests:
    return digests if spans is None else spans.fold(digests, sum_of_digests)


def _left(digests: Digests, expired_before: int | None) -> Digests:
    if expired_before is None:
        return digests
    return {segment: digest for segment, digest in digests.items() if segment >= expired_before}


def _later(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)
