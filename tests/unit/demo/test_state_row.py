from __future__ import annotations

import numpy as np
import pytest

from airflow_provider.changelog.commit_record import COMMIT_KEY as PRODUCT_COMMIT_KEY
from airflow_provider.changelog.commit_record import CommitRecord, SourcePosition
from airflow_provider.common.task_id import TaskId
from airflow_provider.demo.state_row import (
    COMMIT_KEY,
    Commit,
    decode_aircraft,
    decode_airport_hour,
    decode_commit,
)
from airflow_provider.demo.truth import Aircraft, AirportHour
from airflow_provider.state.time_segments import time_prefix
from airflow_provider.streaming.json.row_codec import Column, RowCodec


def encoded(*aircraft: Aircraft) -> list[bytes]:
    """As the product writes it."""

    def numbers(values: list[float | None]) -> Column:
        ok = np.array([value is not None for value in values])
        return Column(ok, np.array([value or 0.0 for value in values], np.float64).view(np.int64))

    texts = [None if a.last_dest is None else a.last_dest.encode() for a in aircraft]
    present = np.array([text is not None for text in texts])
    lengths = np.array([len(text or b"") for text in texts], np.int64)
    return RowCodec((False, False, False, False, True)).encode(
        [
            Column(np.ones(len(aircraft), bool), np.array([a.flights for a in aircraft], np.int64)),
            numbers([a.distance for a in aircraft]),
            numbers([a.dep_delay_sum for a in aircraft]),
            numbers([a.dep_delay_max for a in aircraft]),
            Column(present, lengths, texts),
        ]
    )


def test_own_decoder_reads_what_the_product_writes() -> None:
    aircraft = [
        Aircraft(3, 4_200.0, -7.5, 12.0, "SEA"),
        Aircraft(1, 100.0, None, None, "Zürich"),
        Aircraft(2, None, 0.0, 0.0, None),
    ]

    assert [decode_aircraft(b"N1", row) for row in encoded(*aircraft)] == [("N1", of) for of in aircraft]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda row: row[:-1], id="cut short"),
        pytest.param(lambda row: row + b"x", id="too long"),
        pytest.param(lambda row: row[:10], id="no row"),
        pytest.param(lambda row: b"\x02" + row[1:], id="another version"),
    ],
)
def test_other_bytes_are_refused(damage: object) -> None:
    (row,) = encoded(Aircraft(3, 4_200.0, -7.5, 12.0, "SEA"))
    assert callable(damage)

    with pytest.raises(ValueError, match="row"):
        decode_aircraft(b"N1", damage(row))


def test_own_decoder_reads_the_hours_that_the_product_writes() -> None:
    def ints(*values: int) -> Column:
        return Column(np.ones(len(values), bool), np.array(values, np.int64))

    sums = Column(np.array([True, False]), np.array([7.0, 0.0]).view(np.int64))
    rows = RowCodec((False, False, False)).encode([ints(2, 1), sums, ints(2, 0)])
    keys = [time_prefix(3_600_000) + b"JFK", time_prefix(-3_600_000) + b"LGA"]

    assert [decode_airport_hour(key, row) for key, row in zip(keys, rows, strict=True)] == [
        ("JFK@1970-01-01T01:00:00.000Z", AirportHour(2, 3.5)),
        ("LGA@1969-12-31T23:00:00.000Z", AirportHour(1, None)),
    ]


@pytest.mark.parametrize(
    ("key", "row"),
    [
        pytest.param(b"JFK", b"\x01" * 28, id="no time"),
        pytest.param(time_prefix(0) + b"JFK", b"\x01" * 27, id="cut short"),
        pytest.param(time_prefix(0) + b"JFK", b"\x02" * 28, id="another version"),
    ],
)
def test_other_bytes_are_no_hour(key: bytes, row: bytes) -> None:
    with pytest.raises(ValueError, match="not a row"):
        decode_airport_hour(key, row)


def test_commit_record_is_read_by_its_documented_names() -> None:
    record = CommitRecord(
        application_id="flights",
        task=TaskId(0, 2),
        sequence=9,
        generation=4,
        instance="i2",
        incarnation=17,
        committed_at_ms=99,
        sources={"flights": SourcePosition(123)},
        processed=124,
        filtered={"no_tail_number": 5},
        late=3,
    )

    assert PRODUCT_COMMIT_KEY == COMMIT_KEY
    assert decode_commit(record.to_bytes(), "flights") == Commit(123, 124, 5, 4, "i2", 3)
