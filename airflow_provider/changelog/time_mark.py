"""How far a task's event time has got, told to those that read its rows: in their topic, in its transactions.

A mark is a record in each partition of an internal topic, behind the rows of its transaction. Its key is reserved, and
names the task; its value is JSON. So a reader under ``read_committed`` knows of every row whether it came before the
mark or after it, and finds the same when it reads again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError
from airflow_provider.state.position import RESERVED_PREFIX

TIME_KEY: Final = RESERVED_PREFIX + b"time/"


@dataclass(frozen=True)
class TimeMark:
    """A promise of a task: none of the rows that it writes later has an event time before it, unless it is late.

    Args:
        watermark_ms: epoch ms; None for a task that is set aside, because its source holds nothing: it promises
            nothing, and is waited for by nobody until it has rows again.
    """

    task: TaskId
    watermark_ms: int | None

    @property
    def record(self) -> tuple[bytes, bytes]:
        """Key and value."""
        return TIME_KEY + str(self.task).encode(), msgspec.json.encode({"watermark_ms": self.watermark_ms})

    @classmethod
    def of(cls, key: bytes, value: bytes) -> TimeMark:
        """The inverse of `record`.

        Raises:
            ValueError: it is none.
        """
        try:
            task = TaskId.parse(key.removeprefix(TIME_KEY).decode())
            return cls(task, msgspec.json.decode(value, type=_Value).watermark_ms)
        except (msgspec.DecodeError, UnicodeDecodeError, ConfigurationError) as error:
            raise ValueError(f"{key!r} is no mark of time: {error}") from error


class _Value(msgspec.Struct):
    watermark_ms: int | None
