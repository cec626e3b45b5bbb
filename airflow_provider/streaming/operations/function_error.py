"""What a row made go wrong in an operation, as the operation knows it."""

from __future__ import annotations

__all__ = ["FunctionError"]


class FunctionError(Exception):
    """The user's function raised, or a sum has no room for a row's value.

    Topic and partition are the active step's knowledge: it makes a `ProcessError` of it.

    Args:
        offset: of the row; where none of a call's rows goes wrong alone, of the first, and the reason names them all.
        key: the key as text.
        reason: what was raised, in one line.
        alone: whether the row goes wrong whatever lies beside it.
    """

    def __init__(self, offset: int, key: str, reason: str, *, alone: bool = False) -> None:
        self.offset, self.key, self.reason, self.alone = offset, key, reason, alone
        super().__init__(f"offset {offset}, key {key!r}: {reason}")
