from __future__ import annotations

import random
from collections import defaultdict
from typing import Any, Literal

import pyarrow as pa
import pytest

from airflow_provider.streaming.operations.join_rows import JoinedColumns
from airflow_provider.streaming.operations.join_stream_table import StreamTableJoin
from tests.unit.streaming.operations.join_run import Given, JoinRun, left, random_cuts, right

How = Literal["inner", "left"]


def join_of(how: How = "inner", history: int = 0) -> StreamTableJoin:
    return StreamTableJoin(joined=JoinedColumns("k", ("l",), ("r",)), how=how, history_ms=history)


def naive(rows: list[Given], how: How, history: int) -> list[tuple[str, Any]]:
    """Every row of the table is remembered for ever; which of them count is decided at each row of the stream."""
    versions = defaultdict[str | None, list[Given]](list)
    output: list[tuple[str, Any]] = []
    for row in rows:
        if row.side:
            kept = versions[row.key]
            newest = max((version.time for version in kept), default=row.time)
            anchors = [v.time for v in kept if v.time <= newest - history]
            # What is older than the oldest that is kept was over before it came.
            if row.time >= max(anchors, default=row.time):
                kept[:] = [v for v in kept if v.time != row.time] + [row]
            newest = max(version.time for version in kept)
            anchor = max((v.time for v in kept if v.time <= newest - history), default=None)
            kept[:] = [v for v in kept if anchor is None or v.time >= anchor]
            if all(v.value is None for v in kept):
                kept.clear()
            continue
        known = sorted((v for v in versions[row.key] if not history or v.time <= row.time), key=lambda v: v.time)
        found = known[-1].value if known and row.key is not None else None
        if found is not None:
            output.append((row.key or "", {"k": row.key, "l": row.value, "r": found}))
        elif how == "left":
            output.append((row.key or "", {"k": row.key, "l": row.value, "r": None}))
    return output


def test_row_of_the_stream_meets_the_newest_row_of_the_table() -> None:
    run = JoinRun(join_of())
    assert run.add([left("a", 1, 10), right("a", 2, 7), left("a", 1, 11)]) == [("a", {"k": "a", "l": 11, "r": 7})]
    assert run.add([right("a", 3, 8), left("a", 9, 12)]) == [("a", {"k": "a", "l": 12, "r": 8})]


def test_older_row_of_the_table_changes_nothing() -> None:
    run = JoinRun(join_of())
    run.add([right("a", 5, 7), right("a", 4, 6), right("a", 3, None), left("a", 9, 1)])
    assert run.output == [("a", {"k": "a", "l": 1, "r": 7})]


def test_of_rows_of_one_time_the_later_one_counts() -> None:
    run = JoinRun(join_of(history=10))
    run.add([right("a", 5, 7), right("a", 5, 8), left("a", 5, 1)])
    assert run.output == [("a", {"k": "a", "l": 1, "r": 8})]


def test_deletion_leaves_nothing_in_the_store() -> None:
    run = JoinRun(join_of("left"))
    run.add([right("a", 5, 7)])
    assert run.store
    run.add([right("a", 5, None), left("a", 6, 1)])
    assert not run.store
    assert run.output == [("a", {"k": "a", "l": 1, "r": None})]


def test_with_a_history_a_row_meets_what_was_there_at_its_time() -> None:
    run = JoinRun(join_of("left", history=10))
    run.add([right("a", 10, 1), right("a", 20, None), right("a", 15, 2), right("a", 25, 3)])
    run.add([left("a", time, 0) for time in (9, 10, 14, 15, 19, 20, 24, 25, 99)])
    # At 15 the history of what is now the newest, at 25, begins.
    assert [value["r"] for _, value in run.output] == [None, None, None, 2, 2, None, None, 3, 3]


def test_null_key_meets_nothing_not_even_an_empty_text() -> None:
    rows = [right("", 1, 7), left(None, 2, 1), left("", 2, 2)]
    inner, outer = JoinRun(join_of()), JoinRun(join_of("left"))
    inner.add(rows)
    outer.add(rows)
    both = ("", {"k": "", "l": 2, "r": 7})
    assert inner.output == [both]
    assert outer.output == [("", {"k": None, "l": 1, "r": None}), both]


def test_state_says_what_it_means() -> None:
    schema = pa.schema([("k", pa.string()), ("l", pa.int64()), ("r", pa.int32())])
    signature = join_of().signature("k", pa.string(), schema)
    assert signature.columns == {"k": "string", "r": "bigint"}
    assert signature.changes_to(join_of("left").signature("k", pa.string(), schema)) == []
    other = pa.schema([("k", pa.string()), ("l", pa.int64()), ("r", pa.string())])
    changes = signature.changes_to(join_of().signature("k", pa.string(), other))
    assert changes == ["the column 'r': bigint became string"]


def test_states_are_read_as_people_do() -> None:
    run, history = JoinRun(join_of()), JoinRun(join_of(history=10))
    for one in (run, history):
        one.add([right("a", 10, 1), right("a", 15, 2)])
    schema = pa.schema([])
    assert run.join.decode_states(list(run.store.values()), schema) == [{"k": "a", "r": 2}]
    assert history.join.decode_states(list(history.store.values()), schema) == [
        [{"from_ms": 10, "row": {"k": "a", "r": 1}}, {"from_ms": 15, "row": {"k": "a", "r": 2}}]
    ]


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("history", [0, 1, 15])
def test_same_as_the_model_wherever_batches_end(how: How, history: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    randomness = random.Random(seed)
    for _ in range(40):
        now, rows = 0, list[Given]()
        for number in range(randomness.choice([5, 60])):
            now += randomness.choice([0, 1, 3])
            time, key = now - randomness.choice([0, 0, 0, 2, 9, 30]), randomness.choice(["a", "b", "c", ""])
            if randomness.random() < 0.4:
                rows.append(right(key, time, randomness.choice([number, number, None])))
            else:
                rows.append(left(randomness.choice([key, key, None]), time, number))
        run = JoinRun(join_of(how, history))
        for batch in random_cuts(randomness, rows):
            run.add(batch)
        assert run.output == naive(rows, how, history), f"seed {seed}"
