"""What a keyed stateful operation is to the active step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.streaming.operations.function_error import FunctionError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Changes", "ChunkedOperation", "GroupedRows", "Operation"]


@dataclass(frozen=True)
class Changes:
    """What a micro-batch of one task does.

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
            FunctionError: the user's function raised, and `tolerant` is false; nothing has been written.
        """


@runtime_checkable
class ChunkedOperation(Protocol):
    """An operation that keeps what belongs to a key under other keys of the store, too."""

    def whole_state(self, key: bytes, state: bytes, read: Callable[[Sequence[bytes]], Sequence[bytes | None]]) -> bytes:
        """A value for `Operation.decode_states` that has all of it.

        Args:
            key: of the store.
            state: its value.
            read: gives the values of keys.
        """


class Operation(Protocol):
    """A keyed stateful operation. Pickled to the workers; pure, so that a repeated batch computes the same."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns that it reads, besides the key."""

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """What the state means that it writes into an empty store.

        Args:
            key_name: the key column's name.
            key_type: its type before it became text; None while it is not known.
            schema: of the rows that `group` gets, with `columns` at least; None while the types are not known, which
                are left out then.

        Raises:
            ConfigurationError: a column has a type that the operation cannot keep.
        """

    def going_on(self, signature: StoreSignature) -> Operation:
        """The same operation on a store that holds what was written before.

        Args:
            signature: of that store, continued by this operation's own (`StoreSignature.continued_by`).
        """

    def group(self, key_name: str, rows: pa.Table) -> GroupedRows:
        """Group a batch's rows by ``__key``.

        Args:
            key_name: the key column's name, for the output.
            rows: columns ``__key`` (binary), ``__offset`` (int64) and `columns`, in the order of their offsets.

        Raises:
            ConfigurationError: a column has a type that the operation cannot keep.
        """

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """Stored values, as people read them.

        Args:
            states: as `Changes.state` has them.
            schema: of the rows that `group` gets, with `columns` at least.

        Raises:
            ConfigurationError: another operation wrote them.
        """
