"""The examples of the docs, in this process: through the job tester, with restarts and micro-batches of any size."""

from __future__ import annotations

import random
import runpy

import pytest

from airflow_provider.streaming import StatefulJob
from airflow_provider.testing import InputRecord, JobTester
from tests.docs.commands import ROOT
from tests.integration.examples import PARTITIONS, Sent, examples


def job_of(file: str) -> StatefulJob:
    job = runpy.run_path(str(ROOT / "docs" / "examples" / f"{file}.py"))["job"]
    assert isinstance(job, StatefulJob)
    return job


def pipe(tester: JobTester, chance: random.Random, records: list[Sent]) -> None:
    """In a few micro-batches, with an instance that is lost here and there."""
    given = [InputRecord(r.json, key=r.key, partition=r.partition, topic=r.topic) for r in records]
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
