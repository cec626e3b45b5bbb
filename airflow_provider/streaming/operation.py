"""What a keyed stateful operation is to the active step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airflow_provider.streaming.failure import Failure

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Changes", "GroupedRows", "Operation"]


@dataclass(frozen=True)
class Changes:
    """What a micro-batch of one task does.

    Args:
        state: pairs of key and new state; None deletes it.
        output: pairs of key and value for the sink.
        failed: rows that were left out, in the order of their offsets; topic and partition are filled in later.
    """

    state: Sequence[tuple[bytes, bytes | None]]
    output: Sequence[tuple[bytes, bytes | None]]
    failed: Sequence[Failure] = ()


class GroupedRows(Protocol):
    """A batch's rows, grouped by key, waiting for the keys' old state."""

    @property
    def keys(self) -> Sequence[bytes]:
        """The distinct keys."""

    def apply(self, old: Sequence[bytes | None], tolerant: bool = False) -> Changes:
        """Compute new state and output.

        Args:
            old: the keys' state, in the order of `keys`; None where there is none.
            tolerant: leave out the rows that make the user's function raise, instead of raising.

        Raises:
            ProcessError: the user's function raised, and `tolerant` is false; nothing has been written.
        """


class Operation(Protocol):
    """A keyed stateful operation. Pickled to the workers; pure, so that a repeated batch computes the same."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that it reads, besides the key."""

    def group(self, key_name: str, rows: pa.Table) -> GroupedRows:
        """Group a batch's rows by ``__key``.

        Args:
            key_name: the key column's name, for the output.
            rows: columns ``__key`` (binary), ``__offset`` (int64) and `columns`, in the order of their offsets.

        Raises:
            ConfigurationError: a column has a type that the operation cannot keep.
        """
