"""Which windows rows fall in, and how a window stands in keys and outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.state.time_segments import PREFIX_BYTES, times_of
from airflow_provider.streaming.json.json_rows import iso_times
from airflow_provider.streaming.terms.windows import Window

Ints = npt.NDArray[np.int64]

_SIGN = np.uint64(2**63)


def starts_of_rows(windows: Window, event_ms: Ints) -> tuple[Ints, Ints]:
    """The windows that each row falls in.

    Args:
        event_ms: of the rows, epoch ms; may be negative.

    Returns:
        The row's index and the window's start, once for each row and window: in the order of the rows, and of a row's
        windows the latest first.
    """
    last = (event_ms - windows.offset_ms) // windows.slide_ms * windows.slide_ms + windows.offset_ms
    if windows.slide_ms == windows.size_ms:
        return np.arange(len(event_ms)), last
    number = -(-windows.size_ms // windows.slide_ms)
    starts = (last[:, None] - np.arange(number) * windows.slide_ms).ravel()
    rows = np.repeat(np.arange(len(event_ms)), number)
    within = starts + windows.size_ms > event_ms[rows]
    return rows[within], starts[within]


def with_time(times: Ints, groups: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Keys that begin with a time (`state.time_segments`)."""
    prefixes = np.ascontiguousarray((times.view(np.uint64) ^ _SIGN).astype(">u8"))
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(PREFIX_BYTES), len(times), [None, pa.py_buffer(prefixes.tobytes())]
    )
    return pc.binary_join_element_wise(fixed.cast(pa.binary()), groups, pa.scalar(b"", pa.binary()))


def groups_of(keys: Sequence[bytes]) -> list[bytes]:
    """What follows the time in keys."""
    return [key[PREFIX_BYTES:] for key in keys]


def window_column(keys: Sequence[bytes], size_ms: int) -> pa.StructArray:
    """The windows of keys that begin with their start, as PySpark has them: a struct of `start` and `end`."""
    starts = times_of(keys)
    return bounds_column(starts, starts + size_ms)


def windows_of_keys(keys: Sequence[bytes], size_ms: int) -> pa.DictionaryArray:
    """The same, each window once: a batch has many keys, and few windows."""
    starts, places = np.unique(times_of(keys), return_inverse=True)
    return pa.DictionaryArray.from_arrays(pa.array(places), bounds_column(starts, starts + size_ms))


def bounds_column(starts: Ints | Sequence[int], ends: Ints | Sequence[int]) -> pa.StructArray:
    """Windows of any starts and ends, epoch ms, as `window_column` has them."""
    kind = pa.timestamp("ms", tz="UTC")
    columns = [pa.array(times, pa.int64()).cast(kind) for times in (starts, ends)]
    return pa.StructArray.from_arrays(columns, ["start", "end"])


def output_keys(groups: Sequence[bytes], windows: pa.StructArray | pa.DictionaryArray) -> list[bytes]:
    """The keys of output records: the group, ``@``, and the window's start in ISO 8601, which holds no ``@``.

    Args:
        windows: as `window_column` or `windows_of_keys` gives them.
    """
    few = isinstance(windows, pa.DictionaryArray)
    starts = iso_times((windows.dictionary if few else windows).field("start")).to_pylist()
    ends = [f"@{start}".encode() for start in starts]
    places = windows.indices.to_pylist() if few else range(len(ends))
    return [group + ends[place] for group, place in zip(groups, places, strict=True)]
