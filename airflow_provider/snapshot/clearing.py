"""Removes the snapshots of standbys that are no more."""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from airflow_provider.errors import SnapshotError
from airflow_provider.snapshot.place import FILES, MANIFESTS
from airflow_provider.snapshot.remote import Remote


def is_abandoned(manifests: Collection[str], now_ms: int, delete_retention_ms: int) -> bool:
    """Whether none of these snapshots may be restored any more, and has not for as long again.

    Args:
        manifests: names of one standby's manifests; without any nothing is known, so it is not.
        now_ms: epoch ms.
        delete_retention_ms: how old a snapshot may be when it is restored.
    """
    taken = [name.partition("-")[2].removesuffix(".json") for name in manifests]
    newest = max((int(at) for at in taken if at.isdecimal()), default=now_ms)
    return now_ms - newest > 2 * delete_retention_ms


def clear_abandoned(task: Remote, own: str, now_ms: int, delete_retention_ms: int) -> tuple[str, ...]:
    """Remove what the instances of a task left that took no snapshot for long: the manifests first.

    An instance that comes back just then sends again what it misses, with its next snapshot.

    Args:
        task: the task's snapshots.
        own: the instance that does this; its own are not touched.
        now_ms: epoch ms.
        delete_retention_ms: of the changelog.

    Returns:
        The instances whose snapshots were removed.

    Raises:
        SnapshotError: the storage does not answer.
    """
    removed = []
    for instance in task.names():
        manifests, files = task.below(instance, MANIFESTS), task.below(instance, FILES)
        if instance == own or not is_abandoned(manifests.names(), now_ms, delete_retention_ms):
            continue
        for folder in (manifests, files):
            for name in folder.names():
                with contextlib.suppress(SnapshotError):  # another standby may be at it too
                    folder.remove(name)
        removed.append(instance)
    return tuple(removed)
