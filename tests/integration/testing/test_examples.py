"""The examples of the docs, in this process: through the job tester, with restarts and micro-batches of any size."""

from __future__ import annotations

import json
import random
import re
import runpy
from typing import Any

import pytest

from airflow_provider.streaming import StatefulJob
from airflow_provider.testing import InputRecord, JobTester
from tests.docs.commands import ROOT
from tests.docs.fences import fences_of
from tests.integration.examples import PARTITIONS, Sent, examples

pytestmark = pytest.mark.xdist_group("spark-2")


def job_of(file: str) -> StatefulJob:
    job = runpy.run_path(str(ROOT / "docs" / "examples" / f"{file}.py"))["job"]
    assert isinstance(job, StatefulJob)
    return job


def pipe(tester: JobTester, chance: random.Random, records: list[Sent]) -> None:
    """In a few micro-batches, with an instance that is lost here and there.

    A micro-batch is of one topic, and takes a call of Spark where that decodes: so not one for each record.
    """
    parts = (records[begin : begin + 50] for begin in range(0, len(records), 50))
    by_topic = [record for part in parts for record in sorted(part, key=lambda record: record.topic)]
    given = [InputRecord(r.json, key=r.key, partition=r.partition, topic=r.topic) for r in by_topic]
    for begin in range(0, len(given), 400):
        tester.pipe_inputs(given[begin : begin + 400])
        chance.choice([lambda: None, tester.restart, tester.promote_standby])()


@pytest.mark.parametrize("name", list(examples()))
def test_example_comes_to_what_plain_python_computes(name: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance, example = random.Random(seed), examples()[name]
    sent = [example.first(chance), example.some(chance, 300), example.end(), example.too_late()]
    with JobTester(job_of(name), partitions=PARTITIONS) as tester:
        for records in sent:
            pipe(tester, chance, records)
        found = [(record.key, record.value) for record in tester.read_output()]
        counts = tester.counts

    wanted = example.outcome([record for records in sent for record in records])
    assert example.rows(found) == wanted.rows
    assert counts.late == wanted.late
    assert {key: number for key, number in counts.filtered.items() if number} == wanted.filtered
    assert wanted.rows.total() > 20


def section_of(file: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What the page shows to go into an example, and to come out."""
    fences = list(fences_of(ROOT / "docs" / "examples.md"))
    first = next(at for at, fence in enumerate(fences) if fence.file == f"{file}.py")
    shown: list[list[dict[str, Any]]] = []
    for fence in fences[first + 1 :]:
        if fence.language != "json":
            break
        shown.append([json.loads(line) for line in fence.text.splitlines()])
    *given, out = shown
    return [record for block in given for record in block], out


AT = "2026-03-02T00:00:00Z"
END = {"attribution": [{"impression": "end", "ad": "shoes", "shown": AT}, {"impression": "end", "clicked": AT}]}
"""What moves time where the page says that it takes more."""


@pytest.mark.parametrize("name", list(examples()))
def test_page_shows_what_comes_out(name: str) -> None:
    given, shown = section_of(name)
    job = job_of(name)
    topic_of = {frozenset(columns_of(stage.schema)): stage.source_topic for stage in job.stages if stage.schema}
    with JobTester(job) as tester:
        for record in [*given, *END.get(name, [])]:
            tester.pipe_input(record, topic=topic_of[frozenset(record)])
        found = [record.value for record in tester.read_output()]

    assert sorted((row for row in found if row.get("impression") != "end"), key=str) == sorted(shown, key=str)


def columns_of(schema: str) -> list[str]:
    return [field.split()[0] for field in re.split(r",\s*(?![^(]*\))", schema)]
