"""The reference is built from the docstrings of what users import."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import airflow_provider.streaming
from tests.docs.commands import ROOT


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "build_reference.py"))


def test_every_operator_and_sensor_has_a_page(reference: dict[str, Any]) -> None:
    names = set(reference["modules"]())

    for folder in ("operators", "sensors"):
        files = {file.stem for file in (ROOT / folder).glob("*.py")} - {"__init__"}
        assert files
        assert {f"airflow_provider.{folder}.{stem}" for stem in files} <= names


def test_page_shows_what_the_front_door_names(reference: dict[str, Any], tmp_path: Path) -> None:
    reference["build"](tmp_path, ["airflow_provider.streaming"])

    page = (tmp_path / "airflow_provider" / "streaming.html").read_text(encoding="utf-8")
    for name in airflow_provider.streaming.__all__:
        assert name in page
    assert "max_offsets_per_trigger" in page
    assert str(ROOT) not in page
