"""The guide leaves out nothing that a job can be given, and shows what its jobs become."""

from __future__ import annotations

import inspect
import re
from typing import Literal

import pytest

from airflow_provider.streaming import StatefulJob, functions
from airflow_provider.streaming.language.grouped import GroupedStream
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.streaming.language.table import Table
from tests.docs.commands import ROOT
from tests.docs.fences import fences_of

TEXT = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
OF_THE_PLANNER = {"aggregated", "columns_after", "further", "newest", "with_key", "written_columns"}


@pytest.mark.parametrize("name", functions.__all__)
def test_every_aggregate_function_is_described(name: str) -> None:
    assert f"`F.{name}(" in TEXT, f"docs/guide.md has no row for F.{name}()"


@pytest.mark.parametrize("name", list(inspect.signature(StatefulJob.options).parameters)[1:])
def test_every_option_of_a_job_has_a_row(name: str) -> None:
    assert re.search(rf"^\| `options\({name}=", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("file", "format"), [("words.py", "text"), ("test_bestsellers.py", "mermaid")])
def test_job_becomes_what_the_guide_shows(file: str, format: Literal["text", "mermaid"]) -> None:
    fences = list(fences_of(ROOT / "docs" / "guide.md"))
    at = next(at for at, fence in enumerate(fences) if fence.file == file)
    values: dict[str, object] = {"__name__": "page"}
    exec(fences[at].text, values)
    job = values["job"]
    assert isinstance(job, StatefulJob)

    shown = next(fence for fence in fences[at:] if fence.way == "shown")
    assert shown.text == f"{job.describe(format)}\n"


def for_users(of: type) -> list[str]:
    methods = [name for name, value in vars(of).items() if inspect.isfunction(value) and not name.startswith("_")]
    return [name for name in methods if name not in OF_THE_PLANNER]


@pytest.mark.parametrize("method", sorted({*for_users(Stream), *for_users(GroupedStream), *for_users(Table)}))
def test_every_method_of_a_stream_is_described(method: str) -> None:
    assert f"`{method}(" in TEXT or f".{method}(" in TEXT
