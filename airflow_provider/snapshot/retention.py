"""Which snapshots of a standby are no longer needed: pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from airflow_provider.snapshot.manifest import Manifest

__all__ = ["surplus_manifests", "unreferenced_files"]


def surplus_manifests(names: Iterable[str], keep: int) -> Sequence[str]:
    """The manifests to remove, oldest first.

    Args:
        names: of one standby's manifests.
        keep: how many stay. One more does: a reader may have begun with it while a newer one was written.
    """
    taken = sorted(names, key=_taken_at)
    return taken[: max(0, len(taken) - keep - 1)]


def unreferenced_files(files: Collection[str], kept: Iterable[Manifest]) -> Sequence[str]:
    """The files that no manifest needs.

    Args:
        files: names of all that lie there.
        kept: all manifests that stay.
    """
    needed = {file.sha256 for manifest in kept for file in manifest.files}
    return sorted(set(files) - needed)


def _taken_at(name: str) -> str:
    return name.partition("-")[2]
