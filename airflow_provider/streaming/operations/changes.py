"""What a micro-batch of one task does, and what a row of it made go wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


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


@dataclass(frozen=True)
class Changes:
    """New state and output.

    Args:
        state: pairs of key and new state; None deletes it.
        output: pairs of key and value for the sink.
        failed: of the rows that were left out, in the order of their offsets.
        dropped: by name, how many records the operation dropped, as filters do.
        output_offsets: of the rows that `output` has, in its order, where an operation lets rows through; empty where
            it makes others of them.
    """

    state: Sequence[tuple[bytes, bytes | None]]
    output: Sequence[tuple[bytes, bytes | None]]
    failed: Sequence[FunctionError] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    output_offsets: Sequence[int] = ()
