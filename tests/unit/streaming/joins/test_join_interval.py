from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.streaming.joins import row_chunks
from airflow_provider.streaming.joins.join_interval import IntervalJoin
from airflow_provider.streaming.joins.join_rows import How, JoinedColumns
from airflow_provider.streaming.operations.stream_time import StreamTime
from tests.unit.streaming.joins.join_run import Given, JoinRun, left, random_cuts, right


def join_of(how: How = "inner", before: int = 10, after: int = 10, delays: tuple[int, int] = (0, 0)) -> IntervalJoin:
    return IntervalJoin(
        joined=JoinedColumns("k", ("l",), ("r",)), how=how, before_ms=before, after_ms=after, delays_ms=delays
    )


def pair(key: str, one: int | None, other: int | None) -> tuple[str, Any]:
    return key, {"k": key, "l": one, "r": other}


class Model:
    """Row after row; every row is remembered for ever, with whether it has met another one."""

    def __init__(self, join: IntervalJoin) -> None:
        self.join, self.length = join, join.buckets.length_ms
        self.rows: list[dict[str, Any]] = []
        self.times: list[int | None] = [None, None]
        self.mark: int | None = None
        self.late = 0
        self.output: list[tuple[str, Any]] = []

    def add(self, row: Given) -> None:
        join = self.join
        seen = self.times[row.side]
        self.times[row.side] = row.time if seen is None else max(seen, row.time)
        both = [time - delay for time, delay in zip(self.times, join.delays_ms, strict=True) if time is not None]
        self.mark = min(both) if len(both) == 2 else None
        reaches = {0: join.after_ms, 1: join.before_ms}
        is_late = self.is_over(row.time + reaches[row.side])
        if not is_late:
            self.come_out()
        if not is_late and row.key is None:
            if (row.side == 0 and join.how != "inner") or join.how == "outer":
                self.output.append(self.alone(row))
        elif not is_late:
            mine = {"row": row, "met": False, "out": False}
            partners = [
                kept
                for kept in self.rows
                if kept["row"].side != row.side
                and kept["row"].key == row.key
                and not self.is_over(kept["row"].time + reaches[1 - row.side])
                and -join.before_ms <= (kept["row"].time - row.time) * (1 if row.side == 0 else -1) <= join.after_ms
            ]
            for kept in sorted(partners, key=lambda kept: kept["row"].time):
                one, other = (row, kept["row"]) if row.side == 0 else (kept["row"], row)
                self.output.append(pair(row.key or "", one.value, other.value))
                kept["met"] = mine["met"] = True
            self.rows.append(mine)
        else:
            self.late += 1
        self.come_out()

    def is_over(self, last_partner: int) -> bool:
        return self.mark is not None and self.mark > last_partner

    def alone(self, row: Given) -> tuple[str, Any]:
        values = (row.value, None) if row.side == 0 else (None, row.value)
        return row.key or "", {"k": row.key, "l": values[0], "r": values[1]}

    def come_out(self) -> None:
        """What has met nothing comes out when its part of the interval is over."""
        if self.mark is None:
            return
        sides = {"inner": (), "left": (0,), "outer": (0, 1)}[self.join.how]
        found = list[tuple[int, int, int, int, Given]]()
        for kept in self.rows:
            row = kept["row"]
            if row.side in sides and not kept["met"] and not kept["out"]:
                over = (row.time // self.length + 1) * self.length + (self.join.after_ms, self.join.before_ms)[row.side]
                if over <= self.mark:
                    kept["out"] = True
                    found.append((over, row.side, row.time, len(found), row))
        self.output += [self.alone(row) for *_, row in sorted(found, key=lambda f: f[:4])]


def by_key(output: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for key, value in output:
        found.setdefault(key, []).append(value)
    return found


def test_pair_comes_with_its_later_row_whichever_that_is() -> None:
    run = JoinRun(join_of())
    assert run.add([left("a", 100, 1)]) == []
    assert run.add([right("a", 110, 2)]) == [pair("a", 1, 2)]
    assert run.add([left("a", 120, 3), left("a", 121, 4)]) == [pair("a", 3, 2)]


def test_interval_may_lie_on_one_side() -> None:
    run = JoinRun(join_of(before=0, after=10))
    run.add([left("a", 100, 1), right("a", 99, 2), right("a", 100, 3), right("a", 110, 4), right("a", 111, 5)])
    assert run.output == [pair("a", 1, 3), pair("a", 1, 4)]


def test_rows_of_other_keys_do_not_meet() -> None:
    run = JoinRun(join_of())
    assert run.add([left("a", 100, 1), right("b", 100, 2), left("aa", 100, 3)]) == []


def test_one_stream_alone_holds_time_back() -> None:
    run = JoinRun(join_of("left"))
    run.add([left("a", 0, 1), left("a", 10_000, 2)])
    assert run.output == []
    assert run.time == StreamTime(10_000, None, (10_000, None))
    assert run.add([right("a", 0, 3)]) == [pair("a", 1, 3)]
    assert run.add([right("a", 9_990, 4)]) == [pair("a", 2, 4)]


@pytest.mark.parametrize(("how", "alone"), [("inner", []), ("left", [1]), ("outer", [1, 2])])
def test_row_without_partner_comes_out_once_when_it_is_over(how: How, alone: list[int]) -> None:
    run = JoinRun(join_of(how))
    run.add([left("a", 0, 1), right("b", 0, 2), left("x", 10, 0), right("x", 10, 0)])
    assert run.output == [pair("x", 0, 0)]
    run.add([left("x", 500, 0)])
    run.add([right("x", 500, 0)])
    expected = {1: pair("a", 1, None), 2: pair("b", None, 2)}
    emitted = [pair("x", 0, 0), pair("x", 0, 0), *(expected[number] for number in alone)]
    assert sorted(run.output, key=str) == sorted(emitted, key=str)
    run.add([left("x", 1000, 0), right("x", 1000, 0)])
    assert len(run.output) == 3 + len(alone)


def test_row_that_met_one_does_not_come_out_alone() -> None:
    run = JoinRun(join_of("outer"))
    run.add([left("a", 0, 1)])
    run.add([right("a", 0, 2)])
    run.add([left("x", 500, 0), right("y", 500, 0)])
    assert run.output == [pair("a", 1, 2)]


def test_row_that_is_over_when_it_comes_is_late() -> None:
    run = JoinRun(join_of("outer"))
    run.add([left("x", 100, 0), right("y", 100, 0)])
    assert run.add([left("a", 89, 1), right("a", 89, 1)]) == []
    assert run.late == 2
    run.add([left("a", 90, 1), right("a", 90, 2)])
    assert run.late == 2
    assert run.output == [pair("a", 1, 2)]


def test_what_is_over_leaves_the_store_by_the_segment() -> None:
    run = JoinRun(join_of())
    for time in range(0, 2_000, 7):
        run.add([left("a", time, 1), right("b", time, 1)])
    assert len(run.store) < 30


def test_null_key_comes_out_alone_at_once() -> None:
    run = JoinRun(join_of("left"))
    assert run.add([left(None, 5, 1), right(None, 5, 2), left("", 5, 3)]) == [("", {"k": None, "l": 1, "r": None})]


def test_segments_stay_as_long_as_they_were() -> None:
    schema = pa.schema([("k", pa.string()), ("l", pa.int64()), ("r", pa.int64())])
    first = join_of(delays=(0, 0)).signature("k", pa.string(), schema)
    longer = join_of(delays=(0, 5_000))
    now = longer.signature("k", pa.string(), schema)
    assert first.changes_to(now) == []
    assert longer.going_on(first.continued_by(now)).segments.length_ms == first.segment_ms != now.segment_ms
    wider = join_of(after=11).signature("k", pa.string(), schema)
    assert len(first.changes_to(wider)) == 1


def test_rows_of_a_hot_key_are_not_written_again_with_each_that_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    run = JoinRun(join_of("left", before=1_000, after=1_000))
    run.add([left("hot", 0, 0), right("x", 0, 0)])
    number, size = 1_500, max(map(len, run.store.values()))
    monkeypatch.setattr(row_chunks, "CHUNK_BYTES", 4096)
    for at in range(number):
        run.add([left("hot", at % 100, at)])
    assert max(map(len, run.store.values())) < row_chunks.CHUNK_BYTES + 2 * size
    assert run.written_bytes < number * (row_chunks.CHUNK_BYTES + 2 * size)
    assert run.read_bytes < number * (row_chunks.CHUNK_BYTES + 2 * size)
    found = run.add([right("hot", 50, 7)])
    assert {value["l"] for _, value in found} == set(range(number))
    assert len(found) == number + 1
    before = run.written_bytes
    run.add([right("hot", 50, 8)])
    assert run.written_bytes - before < row_chunks.CHUNK_BYTES
    run.add([left("x", 10_000, 1), right("x", 10_000, 1)])
    assert {value["k"] for _, value in run.output if value["r"] is None} == set()


@pytest.mark.parametrize("chunk_bytes", [0, 40, row_chunks.CHUNK_BYTES], ids=["a row", "some rows", "many rows"])
@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@pytest.mark.parametrize(
    ("before", "after", "delays"),
    [(10, 10, (0, 0)), (0, 25, (7, 0)), (25, 3, (0, 30)), (100, 100, (5, 5)), (1, 2, (300, 200))],
    ids=["symmetric", "after", "mostly before", "long", "mostly delay"],
)
def test_same_as_the_model_wherever_batches_end(
    monkeypatch: pytest.MonkeyPatch, how: How, before: int, after: int, delays: tuple[int, int], chunk_bytes: int
) -> None:
    monkeypatch.setattr(row_chunks, "CHUNK_BYTES", chunk_bytes)
    seed = random.SystemRandom().randrange(2**32)
    randomness = random.Random(seed)
    for _ in range(10):
        join = join_of(how, before, after, delays)
        begin = randomness.choice([-50, 0, 1_700_000_000_123])
        now, rows = [begin, begin + randomness.choice([0, 0, 200])], list[Given]()
        for number in range(randomness.choice([4, 30, 120])):
            side = randomness.choice([0, 1])
            now[side] += randomness.choice([0, 1, 4, 4, 4, 40] if randomness.random() < 0.9 else [150, 700])
            time = now[side] - randomness.choice([0, 0, 0, 1, 5, 40])
            rows.append(Given(side, randomness.choice(["a", "a", "b", "c", None, ""]), time, number))
        model = Model(join)
        for row in rows:
            model.add(row)
        run = JoinRun(join)
        for batch in random_cuts(randomness, rows):
            run.add(batch)
        assert by_key(run.output) == by_key(model.output), f"seed {seed}"
        assert (run.late, run.time.watermark_ms) == (model.late, model.mark), f"seed {seed}"
