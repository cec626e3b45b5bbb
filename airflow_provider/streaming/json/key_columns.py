"""The columns of a key in an output: one, or those that a key of several is made of."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

__all__ = ["key_columns", "key_parts"]

_decode = msgspec.json.Decoder(list[str]).decode


def key_parts(name: str, by: Sequence[str], key: str) -> dict[str, str]:
    """By column, the text of a key.

    Args:
        name: of the key's column.
        by: the columns of a key of several; empty for one.
        key: its text; of several columns the JSON array of theirs.
    """
    return dict(zip(by, _decode(key), strict=True)) if by else {name: key}


def key_columns(name: str, by: Sequence[str], keys: pa.Array) -> list[tuple[str, pa.Array]]:
    """The same of many keys, as Arrow has them.

    Args:
        name: of the key's column.
        by: the columns of a key of several; empty for one.
        keys: their texts, or the bytes of these.
    """
    texts = keys.cast(pa.string())
    if not by:
        return [(name, texts)]
    parts = [_decode(key) for key in texts.to_pylist()]
    return [(column, pa.array([part[at] for part in parts], pa.string())) for at, column in enumerate(by)]
