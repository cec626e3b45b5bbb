from __future__ import annotations

import pytest

from airflow_provider.kit.errors import RecordsError
from airflow_provider.kit.records import TextRecord, parse_line


@pytest.mark.parametrize(
    ("line", "record"),
    [
        pytest.param('ada\t{"amount": 5}\n', TextRecord("ada", '{"amount": 5}'), id="key and value"),
        pytest.param('{"amount": 5}\r\n', TextRecord(None, '{"amount": 5}'), id="value alone"),
        pytest.param("\t[1, 2]", TextRecord("", "[1, 2]"), id="an empty key"),
        pytest.param("ada\t\n", TextRecord("ada", None), id="deletion"),
        pytest.param("Zürich\t7", TextRecord("Zürich", "7"), id="beyond ASCII"),
    ],
)
def test_line_is_a_record_and_back(line: str, record: TextRecord) -> None:
    assert parse_line(line, 1) == record
    assert record.to_line() == line.rstrip("\r\n")


@pytest.mark.parametrize("line", ["", "\n", "  \n"])
def test_blank_line_is_skipped(line: str) -> None:
    assert parse_line(line, 1) is None


@pytest.mark.parametrize("line", ["ada\tamount=5", "ada {}", "ada"])
def test_line_without_json_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(RecordsError, match=r"Line 12 is not a record: expected key<TAB>JSON"):
        parse_line(line, 12)


def test_value_that_is_no_json_is_taken_as_it_is_where_that_is_asked_for() -> None:
    assert parse_line("ann\t{no json\n", 1, raw=True) == TextRecord("ann", "{no json")
    with pytest.raises(RecordsError, match="--raw"):
        parse_line("ann\t{no json\n", 1)


def test_headers_stand_behind_the_value_where_that_is_asked_for() -> None:
    record = TextRecord("ann", "{}", {"why": "größer\n", "none": None})

    assert record.to_line() == "ann\t{}"
    assert record.to_line(headers=True) == 'ann\t{}\t{"why": "größer\\n", "none": null}'
