"""How many records a tested job took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """What became of the input so far, as the commit records count it.

    Args:
        processed: input records that were taken, those below included.
        filtered: by filter, how many it dropped; under ``duplicates``, how many ``drop_duplicates()`` did.
        failed: how many were left out because they cannot be processed.
        late: how many came when all of their windows were closed.
    """

    processed: int
    filtered: Mapping[str, int]
    failed: int
    late: int = 0
