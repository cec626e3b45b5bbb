"""The digest of a store that is written, kept up to date by what each write changes."""

from __future__ import annotations

from airflow_provider.state.digest import DIGEST_MASK
from airflow_provider.state.digest_scan import DigestScan

__all__ = ["RunningDigest"]


class RunningDigest:
    """A base, and the sum of the changes since.

    The base is either known from the last commit, or scanned from the store as it stood; until that is
    done the digest is not known.
    """

    def __init__(self) -> None:
        self._base: int | None = None
        self._scan: DigestScan | None = None
        self._changes = 0

    def resume(self, known: int | None) -> None:
        """Go on from a digest that is known, or forget all; what was scanned is given up."""
        if self._scan is not None:
            self._scan.cancel()
        self._base, self._scan, self._changes = known, None, 0

    def rebase(self, scan: DigestScan) -> None:
        """Go on from what a scan of the store, as it stands now, will find."""
        self.resume(None)
        self._scan = scan

    def after(self, change: int) -> int | None:
        """What it will be after a change; None while it is not known.

        Raises:
            StoreCorruptedError: the scan found a part of the store that cannot be read.
        """
        if self._scan is not None and self._scan.done:
            scan, self._scan = self._scan, None
            self._base = scan.result()
        return None if self._base is None else (self._base + self._changes + change) & DIGEST_MASK

    def add(self, change: int) -> None:
        """The change was made."""
        self._changes = (self._changes + change) & DIGEST_MASK
