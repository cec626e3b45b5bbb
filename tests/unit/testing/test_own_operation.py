"""An operation that nobody knows but this file: what is promised of every operation holds for it, too."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pytest

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, stream, window
from airflow_provider.streaming.json.json_rows import json_rows, key_columns
from airflow_provider.streaming.json.types import type_name
from airflow_provider.streaming.operations.batch import Changes, StateReader
from airflow_provider.streaming.operations.operation import Batch, Operation
from airflow_provider.testing import InputRecord, JobTester, check_batching
from tests.unit.testing import operations
from tests.unit.testing.test_every_operation import (
    Deaths,
    assert_each_record_counts_once,
    deaths,
    promote,
    restore,
    resume,
    undisturbed_by,
)

__all__ = ["deaths"]

_KEPT: Final = struct.Struct("<q")


@dataclass(frozen=True)
class Rises(Operation):
    """Emits how much higher a row's value is than the highest of its key before; other rows say nothing."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        return StoreSignature(key=key_name, key_type=type_name(key_type), operation="rises", version=1)

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        rows = [batch.rows.column(name).to_pylist() for name in ("__key", self.column)]
        keys = sorted(set(rows[0]))
        highest = dict(zip(keys, map(_decoded, state.get_many(keys)), strict=True))
        risen = list[tuple[bytes, int]]()
        changed = dict[bytes, int]()
        for key, value in zip(*rows, strict=True):
            before = highest[key]
            if value is not None and (before is None or value > before):
                risen.append((key, value - (before or 0)))
                highest[key] = changed[key] = value
        out = pa.array([key for key, _ in risen], pa.binary())
        values = json_rows([*key_columns(batch.key_name, (), out), ("rise", pa.array([rise for _, rise in risen]))])
        kept = [(key, _KEPT.pack(changed[key])) for key in keys if key in changed]
        return Changes(kept, list(zip(out.to_pylist(), values, strict=True)))

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        return [_decoded(state) for state in states]


def _decoded(state: bytes | None) -> int | None:
    return None if state is None else int(_KEPT.unpack(state)[0])


_ORDERS: Final = stream("orders", schema="customer STRING, product STRING, amount BIGINT", key="customer")


def _draw(chance: random.Random, number: int) -> InputRecord:
    customer, amount = chance.choice(["ann", "bob", "eve"]), chance.choice([None, *range(60)])
    return InputRecord({"customer": customer, "product": f"p{number % 3}", "amount": amount}, key=customer)


def job_of(key: str) -> operations.Operation:
    rises = _ORDERS.group_by(key).apply(Rises("amount"), name="rises")
    return operations.Operation(job=StatefulJob("tested", rises.sink("out")), draw=_draw, once=True)


@pytest.fixture(params=["customer", "product"], ids=["one stage", "behind an internal topic"])
def operation(request: pytest.FixtureRequest) -> operations.Operation:
    return job_of(request.param)


def test_tester_shows_what_it_emits_and_keeps(operation: operations.Operation) -> None:
    with JobTester(operation.job) as tester:
        for customer, amount in [("ann", 5), ("bob", 1), ("ann", 4), ("ann", 9)]:
            record = {"customer": customer, "product": customer, "amount": amount}
            tester.pipe_input(InputRecord(record, key=customer))

        found = [(record.key, record.value) for record in tester.read_output()]
        assert [(key, value["rise"]) for key, value in found] == [("ann", 5), ("bob", 1), ("ann", 4)]
        assert tester.states() == {"ann": 9, "bob": 1}
        assert (tester.state("ann"), tester.state("eve")) == (9, None)


def test_result_does_not_depend_on_micro_batches(operation: operations.Operation) -> None:
    check_batching(operation.job, operation.records(7, 24), seed=7, cuts=3)


@pytest.mark.parametrize("successor", [resume, restore, promote])
def test_each_record_counts_once_though_its_instance_dies_at_every_fail_point(
    successor: Callable[[JobTester], None],
    operation: operations.Operation,
    deaths: Deaths,
) -> None:
    seed = random.SystemRandom().randrange(100)
    print(f"seed {seed}")
    assert_each_record_counts_once(operation, seed, undisturbed_by(operation, seed), successor, deaths)


ROWS: Final = stream("numbers", schema="k STRING, v INT, at BIGINT", key="k", event_time="at", watermark="1 second")


@pytest.mark.parametrize(
    ("apply", "refused"),
    [
        pytest.param(lambda: ROWS.group_by("k").apply(Rises), "apply() got <class", id="class"),  # type: ignore[arg-type]
        pytest.param(lambda: ROWS.group_by("k").apply("rises"), "apply() got 'rises'", id="text"),  # type: ignore[arg-type]
        pytest.param(lambda: ROWS.group_by("k").apply(Rises("w")), "names the column 'w'", id="misspelt"),
        pytest.param(lambda: ROWS.group_by("k", "v").apply(Rises("v")), "a key of one column", id="two-columns"),
        pytest.param(
            lambda: ROWS.group_by("k", window("at", "2 seconds")).apply(Rises("v")), "without a window", id="window"
        ),
    ],
)
def test_what_it_would_not_be_told_of_is_refused(apply: Callable[[], object], refused: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(refused)):
        apply()


def test_description_names_it(operation: operations.Operation) -> None:
    assert "Rises" in operation.job.describe()
