"""The last commit that a store is applied to."""

from __future__ import annotations

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.common.task_id import TaskId
from airflow_provider.state.store import Store

__all__ = ["LastCommit"]


class LastCommit:
    """Reads the commit record in a store's position, decoded once as long as it stays the same.

    Args:
        store: holds the position, which is the truth.
        application_id: whose commit it has to be.
        task_id: of which task.
        changelog: where the commit came from, for messages.
    """

    def __init__(self, store: Store, application_id: str, task_id: TaskId, changelog: str) -> None:
        self._store, self._application_id, self._task_id, self._changelog = store, application_id, task_id, changelog
        self._raw: bytes | None = None
        self._record: CommitRecord | None = None

    def read(self) -> CommitRecord | None:
        """The record; None before the first.

        Raises:
            TopicMismatchError: it is another application's.
        """
        position = self._store.position
        raw = None if position is None else position.commit
        if raw is not self._raw:
            self._record = (
                None
                if raw is None
                else CommitRecord.from_bytes(raw, self._application_id, self._task_id, self._changelog)
            )
            # Only now: what was refused is refused again.
            self._raw = raw
        return self._record
