from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.bases.arguments import (
    parse_if_given,
    parse_mapping,
    parse_names,
    parse_optional,
    parse_seconds,
    parse_whole,
)
from airflow_provider.errors import ConfigurationError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(["a", "b"], ("a", "b"), id="list"),
        pytest.param("['a', 'b']", ("a", "b"), id="python-text"),
        pytest.param('["a", "b"]', ("a", "b"), id="json-text"),
        pytest.param("a, b", ("a", "b"), id="commas"),
        pytest.param("1", ("1",), id="digits-stay-text"),
        pytest.param("3.10", ("3.10",), id="version-stays-text"),
        pytest.param("1_000", ("1_000",), id="underscore-stays"),
    ],
)
def test_names_are_read_however_they_were_written(value: Any, expected: tuple[str, ...]) -> None:
    assert parse_names("instances", value) == expected


@pytest.mark.parametrize("value", [3.1, 1, None, [], "", "a,,b", ["a", 1], "['a', 3.10]", "['a'", {"a": 1}], ids=repr)
def test_what_is_no_name_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="instances is"):
        parse_names("instances", value)


@pytest.mark.parametrize("value", ["nan", float("nan"), "inf", -1, 0, "soon", None, True - 1], ids=repr)
def test_seconds_that_never_end_or_never_begin_are_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="positive, finite number of seconds"):
        parse_seconds("timeout_s", value)


def test_seconds_and_whole_numbers_are_read_from_text() -> None:
    assert parse_seconds("timeout_s", "1.5") == 1.5
    assert parse_whole("num_standby_replicas", "2") == 2


@pytest.mark.parametrize("value", ["1.5", 1.5, -1, "", None, True], ids=repr)
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="use a whole number of 0 or more"):
        parse_whole("num_standby_replicas", value)


@pytest.mark.parametrize("value", [None, "", "None", "null"], ids=repr)
def test_empty_field_of_a_form_is_none(value: Any) -> None:
    assert parse_optional(value) is None
    assert parse_if_given(parse_whole, "max_lag_records", value, minimum=1) is None


def test_field_that_is_filled_in_is_parsed_as_if_it_had_to_be() -> None:
    assert parse_if_given(parse_whole, "max_lag_records", "7", minimum=7) == 7
    with pytest.raises(ConfigurationError, match="max_lag_records is '6'"):
        parse_if_given(parse_whole, "max_lag_records", "6", minimum=7)


def test_mapping_is_read_from_text() -> None:
    assert parse_mapping("conf", '{"spark.ui.enabled": false, "a": "1"}') == {"spark.ui.enabled": "False", "a": "1"}
    assert parse_mapping("conf", "") == {}
    with pytest.raises(ConfigurationError, match="conf is"):
        parse_mapping("conf", "[1]")
