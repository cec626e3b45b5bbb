"""How many timers a store holds, known from the changes to it: no commit and no heartbeat reads all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider.common.timer_count import TimerCount
from airflow_provider.state.time_segments import time_of
from airflow_provider.streaming.operations.batch import Pair, StoreReader


def timer_counts(
    prefixes: Mapping[str, bytes], last: Mapping[str, TimerCount], changes: Sequence[Pair], state: StoreReader
) -> dict[str, TimerCount]:
    """The timers after some changes, by kind.

    Args:
        prefixes: by kind, what the keys of its timers begin with (`Operation.timer_prefixes`).
        last: before the changes; a kind that is missing, because nobody counted it, is counted in the store.
        changes: of the state, all of which was read.
        state: before them.
    """
    found = dict[str, TimerCount]()
    for kind, prefix in prefixes.items():
        changed = {key: value for key, value in changes if key.startswith(prefix)}
        before = last.get(kind)
        if before is not None and not changed:
            found[kind] = before
            continue
        end, known = prefix[:-1] + bytes([prefix[-1] + 1]), state.known
        number = sum(1 for _ in state.range(prefix, end)) if before is None else before.number
        number += sum((value is not None) - (known.get(key) is not None) for key, value in changed.items())
        # Of those that are left the first is enough: they lie in the order of their times.
        left = next((key for key, _ in state.range(prefix, end) if changed.get(key, b"") is not None), None)
        keys = [left, *(key for key, value in changed.items() if value is not None)]
        first = min((key for key in keys if key is not None), default=None)
        found[kind] = TimerCount(number, None if first is None else time_of(first[len(prefix) :]))
    return found
