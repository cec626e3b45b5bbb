from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
import pytest

from airflow_provider.streaming.joins import deleted_keys, version_chunks
from airflow_provider.streaming.joins.join_rows import LEFT, JoinedColumns, decode_rows
from airflow_provider.streaming.joins.join_stream_table import StreamTableJoin
from airflow_provider.streaming.joins.row_chunks import CHUNK_BYTES
from airflow_provider.streaming.operations.operation import StoredStates
from tests.unit.streaming.joins.join_run import Come, Given, JoinRun, Told, left, random_cuts, right, with_marks

How = Literal["inner", "left"]


def join_of(how: How = "inner", history: int | None = 0, grace: int | None = None) -> StreamTableJoin:
    return StreamTableJoin(joined=JoinedColumns("k", ("l",), ("r",)), how=how, history_ms=history, grace_ms=grace)


def pair(key: str, one: int | None, other: int | None) -> tuple[str, Any]:
    return key, {"k": key, "l": one, "r": other}


def naive_in_time(
    rows: Sequence[Come], how: How, history: int | None, grace: int | None, told: bool
) -> list[tuple[str, Any]]:
    """Of every key what is kept is looked at with each row, and every row of the stream waits.

    Args:
        told: whether other tasks tell the stream's time, and not its rows.
    """
    kept = defaultdict[str | None, dict[int, int | None]](dict)
    waiting, output = list[tuple[int, int, Given]](), list[tuple[str, Any]]()
    never = -(10**18)
    stream = table = mark = never

    def forget() -> None:
        until = mark if history is None else table - history
        for versions in kept.values():
            if versions and versions[max(versions)] is None and max(versions) <= until:
                versions.clear()

    def let_out() -> None:
        for due in sorted(w for w in waiting if grace is None or w[0] <= mark):
            waiting.remove(due)
            time, _, one = due
            found = kept[one.key].get(max((t for t in kept[one.key] if t <= time), default=never))
            if found is not None or how == "left":
                output.append(pair(one.key or "", one.value, found))

    for number, row in enumerate(rows):
        forget()
        if isinstance(row, Told):
            mark = row.mark - (grace or 0)
        elif row.side:
            table = max(table, row.time)
        elif not told:
            stream = max(stream, row.time)
            mark = stream - (grace or 0)
        let_out()
        if isinstance(row, Told):
            continue
        if row.side:
            versions = kept[row.key]
            versions[row.time] = row.value
            begin = mark if history is None else max(versions) - history
            anchor = max((time for time in versions if time <= begin), default=never)
            kept[row.key] = {time: value for time, value in versions.items() if time >= anchor}
        elif row.key is None:
            output += [("", {"k": None, "l": row.value, "r": None})] if how == "left" else []
        else:
            waiting.append((row.time, number, row))
        let_out()
    return output


def naive(rows: list[Given], how: How, remembered: int) -> list[tuple[str, Any]]:
    """Of every key the newest row is looked at with each row; a deletion is forgotten by the table's time."""
    kept, output, table = dict[str | None, Given](), list[tuple[str, Any]](), -(10**18)
    for row in rows:
        for key in [key for key, known in kept.items() if known.value is None and known.time <= table - remembered]:
            del kept[key]
        if row.side:
            if row.key not in kept or row.time >= kept[row.key].time:
                kept[row.key] = row
            table = max(table, row.time)
            continue
        found = kept[row.key].value if row.key is not None and row.key in kept else None
        if found is not None or how == "left":
            output.append((row.key or "", {"k": row.key, "l": row.value, "r": found}))
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


def test_older_row_does_not_bring_a_deleted_key_back() -> None:
    run = JoinRun(join_of("left"))
    run.add([right("a", 1_000, 1)])
    run.add([right("a", 5_000, None), right("b", 5_000, None)])
    run.add([right("a", 3_000, 2), right("b", 4_999, 3), left("a", 6_000, 1), left("b", 6_000, 1)])
    assert run.output == [pair("a", 1, None), pair("b", 1, None)]
    assert run.join.decode_states([run.store[b"a"]], pa.schema([])) == [None]
    assert run.add([right("a", 5_000, 4), left("a", 6_000, 2)]) == [pair("a", 2, 4)]


def test_deletion_is_forgotten_a_day_later_by_the_tables_time() -> None:
    day, run = 24 * 3_600_000, JoinRun(join_of("left"))
    run.add([right("a", 5, 7), right("a", 6, None), right("b", 7, None), left("x", 10 * day, 1)])
    run.add([right("c", day + 5, 1)])
    assert len([key for key in run.store if key.endswith((b"a", b"b"))]) == 4
    run.add([right("c", day + 6, 2), right("b", 3, 8)])
    assert [key for key in run.store if key.endswith(b"a")] == []
    assert run.add([right("a", 3, 8), left("a", 9, 1), left("b", 9, 1)]) == [pair("a", 1, 8), pair("b", 1, None)]
    run.add([right("c", 2 * day, 3)])
    assert sorted(run.store) == [b"a", b"c"]


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


def test_row_waits_for_the_tables_row_of_its_time() -> None:
    run = JoinRun(join_of("left", None, 10))
    assert run.add([right("a", 0, 7), left("a", 5, 1), left("b", 14, 2)]) == []
    assert run.add([right("a", 3, 8), right("a", 6, 9)]) == []
    assert run.add([left("c", 15, 3)]) == [pair("a", 1, 8)]
    assert run.add([left("c", 40, 4)]) == [pair("b", 2, None), pair("c", 3, None)]


def test_row_that_waits_meets_what_was_there_before_the_key_was_deleted() -> None:
    run = JoinRun(join_of("left", None, 10))
    run.add([right("a", 0, 7), left("a", 22, 1), right("a", 25, None), left("a", 30, 2)])
    assert run.add([left("x", 1_000, 0)]) == [pair("a", 1, 7), pair("a", 2, None)]
    assert len(run.store) == 1


@pytest.mark.parametrize("size", [1, 4], ids=["one-by-one", "at-once"])
def test_row_that_waits_meets_what_had_come_when_its_time_was_told(size: int) -> None:
    come: list[Come] = [left("a", 22, 1), Told(LEFT, 40), right("a", 20, 7)]
    run = JoinRun(join_of("left", None, 10), [LEFT])
    for at in range(0, len(come), size):
        run.add(come[at : at + size])
    assert run.output == [pair("a", 1, None)]


@pytest.mark.parametrize("size", [1, 5], ids=["one-by-one", "at-once"])
def test_deleted_key_is_forgotten_when_its_time_is_told(size: int) -> None:
    come: list[Come] = [right("a", 20, None), left("x", 0, 0), Told(LEFT, 40), right("a", 10, 7), left("a", 25, 1)]
    run = JoinRun(join_of("left", None, 10), [LEFT])
    for at in range(0, len(come), size):
        run.add(come[at : at + size])
    assert run.output == [pair("x", 0, None), pair("a", 1, 7)]


def test_row_that_is_further_behind_than_the_grace_is_joined_at_once() -> None:
    run = JoinRun(join_of("left", None, 10))
    run.add([right("a", 0, 7), left("x", 100, 0)])
    assert run.add([left("a", 89, 1), left("a", 90, 2), left("a", 91, 3)]) == [pair("a", 1, 7), pair("a", 2, 7)]


def test_what_waits_leaves_nothing_in_the_store() -> None:
    run = JoinRun(join_of("left", None, 10))
    run.add([left("a", time, 1) for time in range(50)])
    assert len(run.store) == 10
    run.add([left("a", 200, 1)])
    run.add([left("b", 210, 1)])
    assert len(run.store) == 1


def test_table_that_is_read_ahead_keeps_what_the_stream_needs() -> None:
    run = JoinRun(join_of("inner", None, 10))
    run.add([right("a", time, time) for time in range(0, 1_000, 100)])
    run.add([left("a", 150, 1), left("a", 450, 2), left("x", 1_000, 3)])
    assert run.output == [pair("a", 1, 100), pair("a", 2, 400)]
    run.add([right("a", 1_000, 5)])
    assert len(run.join.decode_states(list(run.store.values())[:1], pa.schema([]))[0]) == 2


@pytest.mark.parametrize(("history", "grace"), [(10, None), (None, 10)], ids=["history", "grace"])
def test_deleted_key_is_forgotten_when_its_history_is_over(history: int | None, grace: int | None) -> None:
    run = JoinRun(join_of("left", history, grace))
    for number in range(20):
        run.add([right(f"k{number}", 100 + number, 7), right(f"k{number}", 101 + number, None)])
    assert run.add([left("k19", 120, 1)]) == ([] if grace else [pair("k19", 1, None)])
    assert len(run.store) >= 20
    run.add([right("z", 200, 0), left("z", 250, 0)])
    run.add([right("z", 300, 0), left("z", 350, 0)])
    assert [key for key in run.store if b"k" in key] == []


def test_versions_of_a_hot_key_lie_in_chunks_of_bounded_size() -> None:
    run = JoinRun(join_of("left", None, 10))
    for first in range(0, 20_000, 1_000):
        run.add([right("a", first + at, at) for at in range(0, 1_000, 2)])
    assert max(map(len, run.store.values())) < 18 * 1024
    stored = [(b"a", run.store[b"a"])]
    ((group, name, versions),) = run.join.read_states(StoredStates(stored, pa.schema([]), run.time, run.get_many))
    assert (group, name, [found["from_ms"] for found in versions]) == ("a", "a", [*range(0, 20_000, 2)])
    # What comes behind the newest touches the chunks of its time alone.
    run.read_bytes = run.written_bytes = 0
    run.add([right("a", 5_001, 7)])
    run.add([left("a", 5_001, 1), left("a", 9_001, 2), left("x", 9_015, 3)])
    assert run.output == [pair("a", 1, 7), pair("a", 2, 0)]
    assert max(run.read_bytes, run.written_bytes) < 80 * 1024
    run.add([right("a", 30_000, 1), left("x", 50_000, 3)])
    run.add([right("a", 50_001, 1)])
    assert len([key for key in run.store if key[:2] == b"\xffv"]) == 0


def test_deletion_that_is_over_drops_all_chunks_of_its_key() -> None:
    run = JoinRun(join_of("left", 100_000, None))
    run.add([right("a", at, at) for at in range(5_000)])
    run.add([right("a", 5_000, None)])
    assert len(run.store) > 10
    run.add([right("z", 105_000, 1)])
    assert list(run.store) == [b"z"]


def test_history_in_values_of_another_layout_is_refused() -> None:
    schema = pa.schema([("k", pa.string()), ("l", pa.int64()), ("r", pa.int64())])
    now = join_of(history=10).signature("k", pa.string(), schema)
    before = dataclasses.replace(now, join="a table's rows for a stream, each until its history is over")
    assert len(before.changes_to(now)) == 1


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("chunk_bytes", [1, 120, CHUNK_BYTES])
@pytest.mark.parametrize(
    ("history", "grace", "told"),
    [(1, None, ()), (15, None, ())]
    + [(*kept, told) for kept in [(None, 1), (None, 20), (30, 20), (5, 5)] for told in ((), (LEFT,))],
    ids=str,
)
def test_in_time_same_as_the_model_wherever_batches_end(
    how: How,
    history: int | None,
    grace: int | None,
    chunk_bytes: int,
    told: Sequence[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(version_chunks, "CHUNK_BYTES", chunk_bytes)
    seed = random.SystemRandom().randrange(2**32)
    randomness = random.Random(seed)
    for _ in range(4):
        now, rows = [1_000, randomness.choice([1_000, 1_020])], list[Given]()
        for number in range(randomness.choice([5, 60])):
            side = randomness.choice([0, 1])
            now[side] += randomness.choice([0, 1, 3, 15])
            key = randomness.choice(["a", "b", "" if side else None])
            value = None if side and randomness.random() < 0.3 else number
            rows.append(Given(side, key, now[side] - randomness.choice([0, 0, 2, 9, 40]), value))
        run = JoinRun(join_of(how, history, grace), told)
        come = with_marks(randomness, rows, told) if told else rows
        for batch in random_cuts(randomness, come):
            run.add(batch)
        assert run.output == naive_in_time(come, how, history, grace, bool(told)), f"seed {seed}"


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("remembered", [0, 7, 10_000])
def test_same_as_the_model_wherever_batches_end(how: How, remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_keys, "REMEMBERED_MS", remembered)
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
        run = JoinRun(join_of(how))
        for batch in random_cuts(randomness, rows):
            run.add(batch)
        assert run.output == naive(rows, how, remembered), f"seed {seed}"
        run.add([right("z", now + remembered + 1, 1)])
        deleted = [key for key, state in run.store.items() if key[:1] == b"\xff" or decode_rows(state)[-1].gone]
        assert deleted == [], f"seed {seed}"
