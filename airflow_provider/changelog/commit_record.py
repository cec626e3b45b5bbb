"""What a commit leaves in every changelog that it wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from airflow_provider.errors import TopicMismatchError
from airflow_provider.state.position import RESERVED_PREFIX

__all__ = ["COMMIT_KEY", "CommitRecord"]

COMMIT_KEY: Final = RESERVED_PREFIX + b"commit"
"""The reserved key. The record under it is the last of its transaction in that changelog."""


@dataclass(frozen=True)
class CommitRecord:
    """The truth about what is done, in the same transaction as the changes and the output.

    A consumer group without members loses its offsets after ``offsets.retention.minutes``; a compacted record stays.

    Args:
        application_id: whose changelog this is.
        task: the task.
        generation: the committing owner's ``active_since``.
        instance: the committing instance.
        incarnation: the process of it.
        committed_at_ms: epoch ms by its clock.
        source_offsets: by topic, the offset of the next input record of partition ``task``.
        processed: input records processed since the beginning of the application.
        filtered: input records that each named filter dropped, since the beginning.
        failed: input records that could not be processed and were left out, since the beginning.
        digest: of the store after this commit (`airflow_provider.state.digest`), 16 hexadecimal digits, because not
            every reader of JSON keeps 64 bits; None while it is not known.
    """

    application_id: str
    task: int
    generation: int
    instance: str
    incarnation: int
    committed_at_ms: int
    source_offsets: dict[str, int]
    processed: int = 0
    filtered: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    digest: str | None = None

    def to_bytes(self) -> bytes:
        """JSON, so that people and other programs can read it."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes, application_id: str, task: int, topic: str) -> CommitRecord:
        """Read a commit record and check that it is this task's.

        Raises:
            TopicMismatchError: it is unreadable, or another application's or task's.
        """
        try:
            record = msgspec.json.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise TopicMismatchError(
                f"{topic}[{task}] holds a commit record that cannot be read ({error}): another program writes into "
                "this changelog. Find it before the application is started again."
            ) from error
        if (record.application_id, record.task) != (application_id, task):
            raise TopicMismatchError(
                f"{topic}[{task}] holds a commit of application {record.application_id!r}, task {record.task}: it is "
                f"not a changelog of {application_id!r}. Use another application id or store name."
            )
        return record
