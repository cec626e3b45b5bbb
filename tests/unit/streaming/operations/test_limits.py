from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider.changelog.replica import Replica
from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.state.digest import digest_of
from airflow_provider.streaming.joins.join_interval import IntervalJoin
from airflow_provider.streaming.joins.join_rows import JoinedColumns, JoinRows, rows_of_columns
from airflow_provider.streaming.joins.join_stream_table import StreamTableJoin
from airflow_provider.streaming.json.user_values import encode_state
from airflow_provider.streaming.operations.batch import Changes, StateReader, StoreReader
from airflow_provider.streaming.operations.limits import TooLargeError
from airflow_provider.streaming.operations.operation import Batch, Operation
from airflow_provider.streaming.operations.process import Process, Row, ValueState
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.terms.error_policy import ErrorPolicy, OnError
from tests.unit.streaming.operations.merging import batch_of
from tests.unit.streaming.worker.bench import CHANGELOG, job_spec

LIMIT = 1_000


def grow(key: str, rows: list[Row], state: ValueState) -> list[Row]:
    """Keeps a text as long as all amounts together; puts out one as long as the last."""
    if any(row["amount"] == 666 for row in rows):
        raise ValueError("poison")
    state.update((state.get() or "") + "x" * sum(row["amount"] for row in rows))
    return [{"last": "y" * rows[-1]["amount"]}]


def job(on_error: OnError = OnError.SKIP, **limits: int) -> StageSpec:
    return dataclasses.replace(
        job_spec(),
        operation=Process(grow, ("amount",)),
        sink_topic="sink",
        error_policy=ErrorPolicy(on_error),
        max_message_bytes={CHANGELOG: LIMIT, "sink": LIMIT, **limits},
    )


def rows(*pairs: tuple[bytes, int]) -> pa.Table:
    return pa.table(
        {
            "__offset": pa.array(range(10, 10 + len(pairs)), pa.int64()),
            "__key": pa.array([key for key, _ in pairs], pa.binary()),
            "amount": pa.array([amount for _, amount in pairs], pa.int64()),
        }
    )


class Held(dict[bytes, bytes]):
    """A store."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(key, self[key]) for key in sorted(self) if begin <= key < end])


def computed(job: StageSpec, given: pa.Table | Batch, stored: Mapping[bytes, bytes] | None = None) -> Changes:
    return computed_by(job, given, StoreReader(cast(Replica, Held(stored or {}))))


def computed_by(job: StageSpec, given: pa.Table | Batch, state: StoreReader) -> Changes:
    batch = given if isinstance(given, Batch) else batch_of(given, job.input.key_name)
    tolerant = job.error_policy.tolerant
    changes = job.operation.merge(batch, state, tolerant)
    return job.operation.fitted(batch, changes, state, job.limits, tolerant)


def test_record_that_makes_state_too_large_is_named_under_the_policy_to_fail() -> None:
    with pytest.raises(TooLargeError, match=r"its state is 1,\d+ bytes, and 'app-state-changelog' takes 900") as caught:
        computed(job(OnError.FAIL, sink=9_000), rows((b"a", 1), (b"big", 1_100), (b"a", 2)))

    assert (caught.value.offset, caught.value.key) == (11, "big")


def test_record_that_makes_an_output_too_large_is_named() -> None:
    with pytest.raises(TooLargeError, match=r"its output is .* and 'sink' takes 400"):
        computed(job(OnError.FAIL, sink=500), rows((b"a", 1), (b"big", 450)))


def test_only_the_rows_that_are_too_large_are_left_out_of_their_key() -> None:
    given = rows((b"big", 300), (b"a", 1), (b"big", 500), (b"big", 500), (b"b", 2), (b"big", 666), (b"big", 10))
    stored = {b"big": encode_state("x"), b"b": encode_state("x")}

    state = StoreReader(cast(Replica, Held(stored)))
    changes = computed_by(job(), given, state)

    assert dict(changes.state) == {key: encode_state("x" * size) for key, size in ((b"big", 811), (b"a", 1), (b"b", 3))}
    assert [(error.offset, type(error).__name__) for error in changes.failed] == [
        (13, "TooLargeError"),
        (15, "FunctionError"),
    ]
    # One output a call: the key that is too large is called row by row.
    assert sorted(len(value) for key, value in changes.output if key == b"big" and value) == [38, 328, 528]
    after = {**stored, **{key: value for key, value in changes.state if value is not None}}
    before, digest = digest_of(stored.keys(), stored.values()), state.digest_change(changes.state, None)[0]
    assert (before + digest) % 2**64 == digest_of(after.keys(), after.values())


def test_key_none_of_whose_rows_fits_changes_nothing() -> None:
    changes = computed(job(), rows((b"big", 1_100), (b"big", 1_200)))

    assert (changes.state, changes.output) == ([], [])
    assert [error.offset for error in changes.failed] == [10, 11]


@dataclass(frozen=True)
class Rows(Operation):
    """Lets each row through as a text as long as its amount, but for those of amount 0."""

    columns: tuple[str, ...] = ("amount",)

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        return StoreSignature(key=key_name, key_type="", operation="rows")

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        keys, amounts, offsets = (batch.rows.column(name).to_pylist() for name in ("__key", "amount", "__offset"))
        kept = [at for at, amount in enumerate(amounts) if amount]
        return Changes(
            [],
            [(keys[at], b"y" * amounts[at]) for at in kept],
            dropped={"zero": len(amounts) - len(kept)},
            output_offsets=[offsets[at] for at in kept],
        )


def test_what_an_operation_drops_is_counted_where_a_row_of_its_batch_is_too_large() -> None:
    given = rows((b"big", 800), (b"a", 0), (b"big", 0), (b"big", 1_100), (b"a", 1), (b"a", 0), (b"big", 2))

    changes = computed(dataclasses.replace(job(), operation=Rows()), given)

    assert [error.offset for error in changes.failed] == [13]
    assert changes.dropped == {"zero": 3}
    came_out = zip(changes.output_offsets, changes.output, strict=True)
    assert {at: (key, len(value or b"")) for at, (key, value) in came_out} == {
        10: (b"big", 800),
        14: (b"a", 1),
        16: (b"big", 2),
    }


def test_what_an_operation_drops_is_counted_where_all_rows_are_of_one_key() -> None:
    given = rows((b"big", 0), (b"big", 1_100))

    changes = computed(dataclasses.replace(job(), operation=Rows()), given)

    assert (changes.dropped, changes.output) == ({"zero": 1}, [])


@pytest.mark.parametrize(
    "join",
    [
        StreamTableJoin(joined=JoinedColumns("k", ("l",), ("r",)), how="inner", history_ms=None, grace_ms=10),
        IntervalJoin(joined=JoinedColumns("k", ("l",), ("r",)), how="inner", before_ms=5, after_ms=5, delays_ms=(0, 0)),
    ],
    ids=["grace", "two streams"],
)
def test_rows_of_a_join_that_are_too_large_by_themselves_are_left_out_alone(
    join: StreamTableJoin | IntervalJoin,
) -> None:
    def given(size: int) -> Batch:
        texts = pa.array(["x", "x" * size, "x"])
        members = rows_of_columns(("k", pa.array(["a", "a", "b"])), [("r", texts)])
        encoded = JoinRows().encode(np.array([1, 1, 1], np.uint8), np.array([1, 2, 3]), members)
        decoded = JoinRows().decode(pa.chunked_array([pa.array(encoded, pa.binary())]))
        keys = pa.array([b"a", b"a", b"b"], pa.binary())
        return join.place(batch_of(pa.table({"__key": keys, "__offset": [7, 8, 9], **decoded.columns})), 0)

    spec = dataclasses.replace(job(), operation=join)
    failed = computed(spec, given(LIMIT)).failed
    assert [error.offset for error in failed] == [8]
    assert isinstance(failed[0], TooLargeError)
    # A row that fits alone is kept, whatever lies beside it.
    assert computed(spec, given(750)).failed == ()
    with pytest.raises(TooLargeError, match="its state is 1,") as caught:
        computed(dataclasses.replace(spec, error_policy=ErrorPolicy()), given(LIMIT))
    assert caught.value.offset == 8
