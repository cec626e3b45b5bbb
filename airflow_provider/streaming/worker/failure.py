"""One record that could not be processed."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from airflow_provider.errors import RecordError

__all__ = ["Failure"]


@dataclass(frozen=True)
class Failure:
    """Which record, and why.

    Args:
        offset: of the input record.
        error: names it.
        stack: the stack of what the user's function raised; empty otherwise.
    """

    offset: int
    error: RecordError
    stack: str = ""

    @classmethod
    def of(cls, offset: int, error: RecordError, cause: BaseException) -> Failure:
        """With the stack of its cause."""
        return cls(offset, error, "".join(traceback.format_exception(cause)))
