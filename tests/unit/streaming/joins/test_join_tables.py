from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.streaming.joins import deleted_keys
from airflow_provider.streaming.joins.join_rows import How, JoinedColumns
from airflow_provider.streaming.joins.join_tables import TableTableJoin
from tests.unit.streaming.joins.join_run import Given, JoinRun, left, random_cuts, right


def join_of(how: How = "inner") -> TableTableJoin:
    return TableTableJoin(joined=JoinedColumns("k", ("l",), ("r",)), how=how)


def naive(rows: list[Given], how: How, remembered: int) -> dict[str, Any]:
    """The result's rows by key."""
    tables: tuple[dict[str, Given], dict[str, Given]] = ({}, {})
    times = [-(10**18)] * 2
    for row in rows:
        assert row.key is not None
        table = tables[row.side]
        known = table.get(row.key)
        over = known is not None and known.value is None and known.time <= times[row.side] - remembered
        if known is None or over or known.time <= row.time:
            table[row.key] = row
        times[row.side] = max(times[row.side], row.time)
    lefts, rights = ({key: r.value for key, r in table.items() if r.value is not None} for table in tables)
    keys = {"inner": lefts.keys() & rights.keys(), "left": lefts.keys(), "outer": lefts.keys() | rights.keys()}[how]
    return {key: {"k": key, "l": lefts.get(key), "r": rights.get(key)} for key in keys}


def test_change_of_either_side_emits_the_row_anew() -> None:
    run = JoinRun(join_of())
    assert run.add([left("a", 1, 1)]) == []
    assert run.add([right("a", 2, 2)]) == [("a", {"k": "a", "l": 1, "r": 2})]
    assert run.add([left("a", 3, 3)]) == [("a", {"k": "a", "l": 3, "r": 2})]


def test_row_that_has_no_partner_any_more_is_deleted() -> None:
    run = JoinRun(join_of())
    run.add([left("a", 1, 1), right("a", 2, 2)])
    assert run.add([right("a", 3, None)]) == [("a", None)]
    assert run.add([right("a", 4, None), left("b", 4, None)]) == []


def test_what_was_never_emitted_is_not_deleted() -> None:
    run = JoinRun(join_of("outer"))
    assert run.add([left("a", 1, 1), left("a", 2, None)]) == []
    assert run.join.decode_states([run.store[b"a"]], pa.schema([])) == [None]


def test_older_row_does_not_bring_a_deleted_key_back() -> None:
    run = JoinRun(join_of("outer"))
    run.add([left("a", 1_000, 1), right("a", 1_000, 1)])
    assert run.add([left("a", 5_000, None)]) == [("a", {"k": "a", "l": None, "r": 1})]
    assert run.add([left("a", 3_000, 2)]) == []
    assert run.add([right("a", 1_500, None)]) == [("a", None)]
    assert run.add([right("a", 1_499, 2), left("a", 4_999, 2)]) == []
    assert run.add([left("a", 5_000, 3)]) == [("a", {"k": "a", "l": 3, "r": None})]


def test_deletion_is_forgotten_a_day_later_by_the_time_of_its_table() -> None:
    day, run = 24 * 3_600_000, JoinRun(join_of("outer"))
    run.add([left("a", 5, None), right("a", 5, None)])
    run.add([right("z", day + 5, 1)])
    assert run.add([left("a", 4, 1), right("a", 4, 2)]) == [("a", {"k": "a", "l": None, "r": 2})]
    run.add([left("z", day + 5, 1)])
    assert sorted(run.store) == [b"a", b"z"]


def test_how_may_not_change() -> None:
    schema = pa.schema([("k", pa.string()), ("l", pa.int64()), ("r", pa.int64())])
    inner, outer = (join_of(how).signature("k", pa.string(), schema) for how in ("inner", "outer"))
    assert inner.changes_to(outer) == ["inner join of two tables became outer join of two tables"]


def test_states_are_read_as_people_do() -> None:
    run = JoinRun(join_of())
    run.add([right("a", 1, 1)])
    assert run.join.decode_states(list(run.store.values()), pa.schema([])) == [
        {"left": None, "right": {"k": "a", "r": 1}}
    ]


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@pytest.mark.parametrize("remembered", [0, 7, 10_000])
def test_same_as_the_model_wherever_batches_end(how: How, remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_keys, "REMEMBERED_MS", remembered)
    seed = random.SystemRandom().randrange(2**32)
    randomness = random.Random(seed)
    for _ in range(40):
        rows = [
            Given(
                randomness.choice([0, 1]),
                randomness.choice("abc"),
                number - randomness.choice([0, 0, 0, 5, 20]),
                randomness.choice([number, number, None]),
            )
            for number in range(randomness.choice([3, 60]))
        ]
        run = JoinRun(join_of(how))
        for batch in random_cuts(randomness, rows):
            emitted = run.add(batch)
            assert len({key for key, _ in emitted}) == len(emitted), f"seed {seed}"
        table = dict[str, Any]()
        for key, value in run.output:
            assert value is not None or key in table, f"seed {seed}"
            table.pop(key, None)
            if value is not None:
                table[key] = value
        assert table == naive(rows, how, remembered), f"seed {seed}"
