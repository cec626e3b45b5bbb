from __future__ import annotations

import pandas as pd

from airflow_provider.demo.truth import Aircraft, AirportHour, compute_truth


def frame(*rows: tuple[str | None, int, float | None, str]) -> pd.DataFrame:
    table = pd.DataFrame(list(rows), columns=["tailnum", "distance", "dep_delay", "dest"])
    return table.assign(origin="JFK", time_hour="2013-01-01T10:00:00Z")


def test_flights_of_an_aircraft_are_added_up() -> None:
    truth = compute_truth(frame(("N1", 100, 5.0, "SEA"), ("N2", 10, 0.0, "BOS"), ("N1", 200, -3.0, "JFK")))

    assert truth.aircraft == {
        "N1": Aircraft(2, 300.0, 2.0, 5.0, "JFK"),
        "N2": Aircraft(1, 10.0, 0.0, 0.0, "BOS"),
    }
    assert (truth.flights, truth.no_tail_number) == (3, 0)


def test_last_destination_is_that_of_the_last_row() -> None:
    truth = compute_truth(frame(("N1", 1, 0.0, "ZZZ"), ("N2", 1, 0.0, "MMM"), ("N1", 1, 0.0, "AAA")))

    assert truth.aircraft["N1"].last_dest == "AAA"
    assert truth.aircraft["N2"].last_dest == "MMM"


def test_flight_that_did_not_depart_counts_without_a_delay() -> None:
    truth = compute_truth(frame(("N1", 100, None, "SEA"), ("N1", 100, 7.0, "SEA"), ("N2", 100, None, "SEA")))

    assert truth.aircraft["N1"] == Aircraft(2, 200.0, 7.0, 7.0, "SEA")
    assert truth.aircraft["N2"] == Aircraft(1, 100.0, None, None, "SEA")


def test_flight_without_a_tail_number_belongs_to_no_aircraft() -> None:
    truth = compute_truth(frame((None, 100, 1.0, "SEA"), ("N1", 100, 1.0, "SEA")))

    assert set(truth.aircraft) == {"N1"}
    assert (truth.flights, truth.no_tail_number) == (2, 1)


def test_flights_of_an_airport_are_added_up_by_hour() -> None:
    hours = ["2013-01-01T10:00:00Z", "2013-01-01T10:00:00Z", "2013-01-01T11:00:00Z", "2013-01-01T10:00:00Z"]
    flights = frame(("N1", 1, 4.0, "SEA"), (None, 1, 5.0, "SEA"), ("N1", 1, None, "SEA"), ("N2", 1, None, "SEA"))

    truth = compute_truth(flights.assign(time_hour=hours, origin=["JFK", "JFK", "JFK", "LGA"]))

    assert truth.airports == {
        "JFK@2013-01-01T10:00:00.000Z": AirportHour(2, 4.5),
        "JFK@2013-01-01T11:00:00.000Z": AirportHour(1, None),
        "LGA@2013-01-01T10:00:00.000Z": AirportHour(1, None),
    }
