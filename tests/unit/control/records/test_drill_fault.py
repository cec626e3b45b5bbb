from __future__ import annotations

import pytest

from airflow_provider.control.records.drill_fault import DRILLS, DrillKind, parse_drill_kind
from airflow_provider.errors import ConfigurationError


def test_each_kind_has_a_row() -> None:
    assert set(DRILLS) == set(DrillKind)


def test_kind_is_read_from_its_name() -> None:
    assert parse_drill_kind("hang") is DrillKind.HANG


def test_unknown_kind_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="Found drill kind 'flood': use one of crash, hang"):
        parse_drill_kind("flood")
