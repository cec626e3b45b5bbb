from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from airflow_provider.demo.judge import Outputs, Table, Verdict, judge
from airflow_provider.demo.state_row import Commit
from airflow_provider.demo.truth import Aircraft, AirportHour, Truth

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
