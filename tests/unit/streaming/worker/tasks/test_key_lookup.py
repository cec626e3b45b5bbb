"""What a store holds of a key is the same whether it is looked up, or picked out of all that the store holds."""

# ruff: noqa: SLF001 - the tester's tasks are none of a user's business

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.lookup import CopyAnswer, KeptState
from airflow_provider.control.records.status import Role, TaskState
from airflow_provider.streaming import StatefulJob, list_state, map_state, stream, value_state, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.json.user_values import json_text
from airflow_provider.streaming.operations.operation import StoredStates
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.worker.tasks import key_lookup
from airflow_provider.streaming.worker.tasks.key_lookup import look_up
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.testing import JobTester
from tests.unit.testing.operations import OPERATIONS, Operation

ORDERS = stream("orders", schema="customer STRING, product STRING, amount BIGINT, at BIGINT", key="customer")
TIMED = stream(
    "orders", schema="customer STRING, amount BIGINT, at BIGINT", key="customer", event_time="at", watermark="10 days"
)
HOUR_MS = 3_600_000


def ask(task: Task, key: str) -> CopyAnswer:
    return look_up(task, key.encode(), time.monotonic() + 10)


def asked(tester: JobTester, key: str) -> dict[str, str]:
    (task,) = tester._active.tasks.values()
    answer = ask(task, key)
    assert (answer.problem, answer.complete) == (None, True)
    return {state.name: str(state.value) for state in answer.states}


def picked_out(task: Task) -> dict[str, list[KeptState]]:
    """By group, all that a store holds, but timers: they lie by their times."""
    stored = StoredStates(
        list(task.replica.items()),
        task.job.input.columns,
        StreamTime.after(task.commit_record),
        task.replica.get_many,
    )
    found = defaultdict[str, list[KeptState]](list)
    for group, name, value in task.operation.read_states(stored):
        kept = {n: v for n, v in value.items() if n not in ("timers", "clock")} if isinstance(value, dict) else value
        if kept != {} or value == {}:
            found[group].append(KeptState(name=name, value=json_text(kept)))
    return found


def parsed(states: Iterable[KeptState]) -> list[tuple[str, Any]]:
    """Without the order of the members, which is that of the keys in the store."""
    return sorted(((state.name, json.loads(state.value or "")) for state in states), key=str)


@pytest.mark.long
@pytest.mark.parametrize("name", OPERATIONS)
def test_lookup_finds_what_every_operation_keeps_of_a_key(name: str) -> None:
    operation = OPERATIONS[name]
    # A draw may end with every key deleted: then it shows nothing, and another is drawn.
    assert any(lookups_find_what_is_kept(operation, random.SystemRandom().randrange(2**32)) for _ in range(5))


def lookups_find_what_is_kept(operation: Operation, seed: int) -> bool:
    """Whether anything was kept, or could be."""
    print(f"seed {seed}")
    with JobTester(operation.job) as tester:
        tester.pipe_inputs(operation.records(seed, 40))
        tasks = [task for task in tester._active.tasks.values() if task.job.keeps_state]
        kept = {task.id: picked_out(task) for task in tasks}
        for task in tasks:
            for group, states in kept[task.id].items():
                answer = ask(task, group)
                assert (answer.problem, answer.complete) == (None, True)
                assert parsed(answer.states) == parsed(states)
            assert ask(task, "nobody").states == ()
    return any(kept.values()) or not tasks


@pytest.fixture
def stores() -> Iterator[JobTester]:
    def count(key: str, rows: list[dict[str, Any]], state: Any) -> None:
        for row in rows:
            state.update((state.get() or 0) + 1)
            state.last.update({"at": dt.datetime(2026, 3, 1, tzinfo=dt.UTC), "paid": Decimal("12.50")})
            state.amounts.append_value(row["amount"])
            state.products.update_value(("by", row["product"]), math.nan)

    kept = [value_state("last"), list_state("amounts"), map_state("products")]
    job = StatefulJob("app", ORDERS.group_by("customer").process(count, ["product", "amount"], stores=kept).sink("out"))
    with JobTester(job) as tester:
        tester.pipe_inputs(
            [{"customer": "ann", "product": "tea", "amount": 1}, {"customer": "anna", "product": "jam", "amount": 2}]
        )
        yield tester


def test_stores_of_a_function_are_shown_as_json_in_their_own_types(stores: JobTester) -> None:
    assert asked(stores, "ann") == {
        "ann": '{"value":1,"last":{"at":"2026-03-01T00:00:00Z","paid":12.50},"amounts":[1],'
        '"products":{"(\'by\', \'tea\')":"NaN"}}'
    }


def test_key_of_several_columns_is_the_array_of_their_texts() -> None:
    job = StatefulJob(
        "app", ORDERS.group_by("customer", "product").aggregate(F.sum("amount").alias("spent")).sink("out")
    )
    with JobTester(job) as tester:
        tester.pipe_input({"customer": "ann", "product": 'té"a', "amount": 3})
        tasks = [task for task in tester._active.tasks.values() if task.job.keeps_state]
        (answer,) = [ask(task, '["ann","té\\"a"]') for task in tasks]

    assert [state.value for state in answer.states] == ['{"spent":3}']


def windows_of(hours: int) -> Iterator[JobTester]:
    grouped = TIMED.group_by("customer", window("at", "1 hour")).aggregate(F.count().alias("n"))
    with JobTester(StatefulJob("app", grouped.sink("counts"))) as tester:
        for number in range(hours):
            tester.pipe_inputs([{"customer": name, "at": number * HOUR_MS} for name in ("ann", "bob")])
        yield tester


def test_open_windows_of_a_key_are_found_and_no_others() -> None:
    for tester in windows_of(1):
        tester.pipe_input({"customer": "ann", "at": HOUR_MS + 1})

        found = {name: json.loads(value) for name, value in asked(tester, "ann").items()}
        assert {name: (of["window"]["end"], of["n"]) for name, of in found.items()} == {
            "ann@1970-01-01T00:00:00.000Z": ("1970-01-01T01:00:00Z", 1),
            "ann@1970-01-01T01:00:00.000Z": ("1970-01-01T02:00:00Z", 1),
        }


def test_more_windows_than_are_looked_at_are_said_to_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lookup, "_MOST_TIMES", 1)
    for tester in windows_of(2):
        (task,) = tester._active.tasks.values()
        answer = ask(task, "ann")

        assert not answer.complete
        assert [state.name for state in answer.states] == ["ann@1970-01-01T01:00:00.000Z"]


def test_newest_windows_are_looked_at_first_and_a_time_that_is_over_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for tester in windows_of(4):
        (task,) = tester._active.tasks.values()
        whole = [state.name for state in ask(task, "ann").states]
        for until in range(1, 14):
            monkeypatch.setattr(key_lookup, "time", SimpleNamespace(monotonic=itertools.count().__next__))
            answer = look_up(task, b"ann", until)
            found = [state.name for state in answer.states]

            assert found == whole[len(whole) - len(found) :]
            assert not answer.complete or found == whole


def test_value_that_is_too_large_is_there_all_the_same(stores: JobTester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lookup, "_MOST_BYTES", 10)
    (task,) = stores._active.tasks.values()

    assert ask(task, "ann").states == (KeptState(name="ann", value=None),)


@pytest.mark.parametrize("bound", ["_MOST_PAIRS", "_MOST_BYTES"])
def test_more_than_fits_into_an_answer_is_said_to_be_left_out(
    stores: JobTester, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_lookup, bound, 2)
    (task,) = stores._active.tasks.values()

    assert not ask(task, "ann").complete


def test_answer_says_where_the_copy_stands(stores: JobTester) -> None:
    (task,) = stores._active.tasks.values()
    answer = ask(task, "ann")
    record, position = task.commit_record, task.replica.position

    assert record is not None
    assert position is not None
    assert (answer.task, answer.role, answer.state) == (TaskId(0, 0), Role.ACTIVE, TaskState.RUNNING)
    assert (answer.source_offset, answer.position) == (2, position.offset)
    assert answer.committed_at_ms == record.committed_at_ms
    assert answer.commit_at == position.offset - 1
    assert answer.lag_records == 0


def test_standby_is_looked_up_as_its_owner_is(stores: JobTester) -> None:
    stores._standby.become(Role.STANDBY, 1)
    (standby,) = stores._standby.tasks.values()
    answer = ask(standby, "ann")

    assert (answer.role, answer.state, answer.problem) == (Role.STANDBY, TaskState.FOLLOWING, None)
    assert {state.name: state.value for state in answer.states} == asked(stores, "ann")


def test_store_that_is_being_restored_in_bulk_is_not_read(stores: JobTester) -> None:
    (task,) = stores._active.tasks.values()
    task.replica.store.set_bulk_load_mode(task.replica.name, True)
    try:
        assert ask(task, "ann").problem == "its store is being restored, and cannot be read meanwhile"
    finally:
        task.replica.store.set_bulk_load_mode(task.replica.name, False)


def test_nothing_is_looked_up_after_the_time_for_it(stores: JobTester) -> None:
    (task,) = stores._active.tasks.values()
    answer = look_up(task, b"ann", time.monotonic() - 1)

    assert answer.problem == "it is asked for more than it looks up beside its work"
    assert answer.states == ()
