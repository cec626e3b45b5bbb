"""Where a task's snapshots lie.

::

    <url>/<application id>/<store>/<task>/<instance>/manifests/<position>-<when>.json     written last
    <url>/<application id>/<store>/<task>/<instance>/files/<sha256>                       by content

A task is named as everywhere, such as ``0_3``. Each standby has a folder of its own, in which only it writes and
removes: two of one task cannot harm each other, and RocksDB instances hardly ever share a file anyway.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.snapshot.remote import Remote
from airflow_provider.snapshot.settings import SnapshotSettings

FILES: Final = "files"
MANIFESTS: Final = "manifests"


def place_of(settings: SnapshotSettings, application_id: str, store: str, task: TaskId) -> Remote:
    """The folder of a task's snapshots; in it one for each instance."""
    return Remote(settings, application_id, store, str(task))
