from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

from airflow_provider.changelog.commit_record import COMMIT_KEY as PRODUCT_COMMIT_KEY
from airflow_provider.changelog.commit_record import CommitRecord, SourcePosition
from airflow_provider.common.task_id import TaskId
from airflow_provider.demo.flights import Aircraft, AirportHour, Truth
from airflow_provider.demo.judge import (
    COMMIT_KEY,
    Commit,
    Outputs,
    Table,
    Verdict,
    decode_aircraft,
    decode_airport_hour,
    decode_commit,
    judge,
)
from airflow_provider.state.time_segments import time_prefix
from airflow_provider.streaming.json.row_codec import Column, RowCodec

N1 = Aircraft(3, 300.0, 6.0, 4.0, "SEA")
N2 = Aircraft(1, 100.0, None, None, "JFK")
AT_10, AT_11 = "JFK@2013-01-01T10:00:00.000Z", "JFK@2013-01-01T11:00:00.000Z"
HOURS = {AT_10: AirportHour(3, 1.5), AT_11: AirportHour(2, None)}
TRUTH = Truth({"N1": N1, "N2": N2}, HOURS, 5, 1)
STATE = {"N1": N1, "N2": N2}
COMMITS = {0: Commit(3, 3, 0, 1, "i1"), 1: Commit(2, 2, 1, 1, "i2")}
ON_THE_WAY = {0: Commit(3, 3, 0, 1, "i1"), 1: Commit(2, 2, 0, 1, "i2")}
AT_AIRPORTS = {0: Commit(17, 5, 0, 1, "i1")}


def outputs(*taken: tuple[str, Aircraft]) -> Outputs[Aircraft]:
    found = Outputs[Aircraft]()
    for offset, (tail_number, aircraft) in enumerate(taken):
        found.take(tail_number, aircraft, f"partition 0, offset {offset}")
    return found


def hours(given: Mapping[str, AirportHour]) -> Outputs[AirportHour]:
    found = Outputs[AirportHour]()
    for key, hour in given.items():
        found.take(key, hour, "partition 0")
    return found


def of_aircraft(
    truth: Truth, state: Mapping[str, Aircraft], given: Outputs[Aircraft], commits: Mapping[int, Commit]
) -> Verdict:
    """Where all is right with the airports."""
    airports = Table(HOURS, hours(HOURS))
    return judge(truth, Table(state, given), airports, (commits, ON_THE_WAY, AT_AIRPORTS))


def of_airports(
    state: Mapping[str, AirportHour],
    given: Outputs[AirportHour],
    on_the_way: Mapping[int, Commit] = ON_THE_WAY,
    at_airports: Mapping[int, Commit] = AT_AIRPORTS,
) -> Verdict:
    """Where all is right with the aircraft."""
    return judge(TRUTH, Table(STATE, OUTPUTS), Table(state, given), (COMMITS, on_the_way, at_airports))


EARLIER = dataclasses.replace(N1, flights=2)
OUTPUTS = outputs(("N1", EARLIER), ("N2", N2), ("N1", N1))


def test_right_result_is_right() -> None:
    verdict = of_aircraft(TRUTH, STATE, OUTPUTS, COMMITS)

    assert verdict.right
    assert (verdict.aircraft, verdict.airport_hours) == (2, 2)
    assert verdict.lines() == []


@pytest.mark.parametrize(
    "wrong",
    [
        dataclasses.replace(N1, flights=4),
        dataclasses.replace(N1, distance=300.5),
        dataclasses.replace(N1, dep_delay_sum=None),
        dataclasses.replace(N1, dep_delay_max=5.0),
        dataclasses.replace(N1, last_dest="JFK"),
    ],
    ids=["flights", "distance", "dep_delay_sum", "dep_delay_max", "last_dest"],
)
def test_one_wrong_value_in_the_state_is_found(wrong: Aircraft) -> None:
    verdict = of_aircraft(TRUTH, {**STATE, "N1": wrong}, OUTPUTS, COMMITS)

    assert not verdict.right
    assert len(verdict.different) == 1
    assert verdict.different[0].startswith("N1: state")


def test_wrong_last_output_is_found() -> None:
    verdict = of_aircraft(TRUTH, STATE, outputs(("N1", EARLIER), ("N2", N2)), COMMITS)

    assert [line.partition(",")[0][:10] for line in verdict.different] == ["N1: output"]


def test_missing_aircraft_is_found() -> None:
    verdict = of_aircraft(TRUTH, {"N1": N1}, OUTPUTS, COMMITS)

    assert [line.split(":")[0] for line in verdict.different] == ["N2"]


def test_aircraft_too_much_is_found() -> None:
    verdict = of_aircraft(TRUTH, {**STATE, "N3": N2}, OUTPUTS, COMMITS)

    assert [line.split(":")[0] for line in verdict.different] == ["N3"]
    assert verdict.aircraft == 3


@pytest.mark.parametrize("again", [N1, EARLIER], ids=["the same output", "an older output"])
def test_output_twice_is_found(again: Aircraft) -> None:
    verdict = of_aircraft(TRUTH, STATE, outputs(("N2", N2), ("N1", EARLIER), ("N1", again), ("N1", N1)), COMMITS)

    assert len(verdict.repeated) == 1
    assert not verdict.right
    assert verdict.different == ()


@pytest.mark.parametrize(
    "commit",
    [Commit(2, 2, 0, 1, "i2"), Commit(2, 3, 1, 1, "i2"), Commit(3, 2, 1, 1, "i2")],
    ids=["filtered", "processed", "source offset"],
)
def test_wrong_count_in_a_commit_record_is_found(commit: Commit) -> None:
    verdict = of_aircraft(TRUTH, STATE, OUTPUTS, {**COMMITS, 1: commit})

    assert len(verdict.miscounted) == 1
    assert not verdict.right


def test_many_differences_are_reported_in_a_few_lines() -> None:
    truth = Truth({f"N{i}": N2 for i in range(50)}, HOURS, 5, 1)

    lines = of_aircraft(truth, {}, Outputs[Aircraft](), COMMITS).lines()

    assert len(lines) == 6
    assert lines[-1] == "different: and 45 more"


@pytest.mark.parametrize("wrong", [AirportHour(4, 1.5), AirportHour(3, 1.25), AirportHour(3, None)])
def test_wrong_hour_of_an_airport_is_found(wrong: AirportHour) -> None:
    in_state = of_airports({**HOURS, AT_10: wrong}, hours(HOURS))
    in_output = of_airports(HOURS, hours({**HOURS, AT_10: wrong}))

    assert [line.split(" Airport")[0] for line in (*in_state.different, *in_output.different)] == [
        f"{AT_10}: state",
        f"{AT_10}: output",
    ]


def test_hour_of_an_airport_that_is_missing_or_came_out_twice_is_found() -> None:
    missing = hours({AT_10: HOURS[AT_10]})
    twice = hours(HOURS)
    twice.take(AT_11, HOURS[AT_11], "partition 0")

    assert len(of_airports(HOURS, missing).different) == 1
    assert len(of_airports(HOURS, twice).repeated) == 1


@pytest.mark.parametrize(
    ("on_the_way", "at_airports"),
    [
        pytest.param({0: Commit(5, 4, 0, 1, "i1")}, AT_AIRPORTS, id="sent"),
        pytest.param({0: Commit(6, 5, 0, 1, "i1")}, AT_AIRPORTS, id="source offset"),
        pytest.param(ON_THE_WAY, {0: Commit(17, 6, 0, 1, "i1")}, id="came"),
        pytest.param(ON_THE_WAY, {0: Commit(17, 5, 0, 1, "i1", late=1)}, id="late"),
    ],
)
def test_wrong_count_on_the_way_to_the_airports_is_found(
    on_the_way: Mapping[int, Commit], at_airports: Mapping[int, Commit]
) -> None:
    assert len(of_airports(HOURS, hours(HOURS), on_the_way, at_airports).miscounted) == 1


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
