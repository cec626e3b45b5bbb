"""The guide leaves out nothing that a job can be given."""

from __future__ import annotations

import pytest

from airflow_provider.streaming import functions
from tests.docs.commands import ROOT

TEXT = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", functions.__all__)
def test_every_aggregate_function_is_described(name: str) -> None:
    assert f"`F.{name}(" in TEXT
