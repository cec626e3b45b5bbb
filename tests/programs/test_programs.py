"""Random programs through the tester, cut at random and with owners lost, against what Spark comes to in one batch."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from airflow_provider.streaming.terms.steps import JOINED_TIME
from airflow_provider.testing import JobTester
from airflow_provider.testing.batching import _RunTester
from airflow_provider.testing.source_rows import local_spark
from tests.programs.drawing import Program
from tests.programs.nodes import Node
from tests.programs.records import PARTITIONS
from tests.spark_settings import with_settings

pytestmark = [pytest.mark.xdist_group("programs"), pytest.mark.long]

PROGRAMS: Final = int(os.environ.get("PROGRAMS") or 6)
FIRST: Final = int(os.environ.get("FIRST_PROGRAM") or 500)
"""Seeds follow each other; others than these are for who looks for what is wrong."""

LOSSES: Final[tuple[Callable[[JobTester], None], ...]] = (
    lambda tester: tester.restart(),
    lambda tester: tester.restart(store="empty"),
    lambda tester: tester.promote_standby(),
)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """The one that the tester uses, too."""
    settings = {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
    with with_settings(local_spark(), settings) as session:
        yield session


@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROGRAMS))
def test_program_comes_to_what_batch_comes_to(spark: SparkSession, seed: int) -> None:
    program = Program(spark, seed)
    text = "\n".join((f"seed {seed}", *program.text))
    print(text)
    found, late = run(program, random.Random(seed))
    assert late == 0, text
    for sink, node in program.sinks.items():
        expected = Counter(plain(row) for row in rows_of(node))
        wrong = {"missing": expected - found[sink], "too many": found[sink] - expected}
        assert not any(wrong.values()), f"{text}\n{sink}: {wrong}"


def run(program: Program, chance: random.Random) -> tuple[dict[str, Counter[str]], int]:
    """What came to each sink, and how many records were late."""
    batches = list(program.records.batches(chance, program.topics))
    with _RunTester(program.job(), partitions=PARTITIONS) as tester:
        tester.expect(itertools.chain(*batches))
        for batch in batches:
            tester.pipe_inputs(batch)
            if chance.random() < 0.25:
                chance.choice(LOSSES)(tester)
        found = {}
        for sink, node in program.sinks.items():
            records = tester.read_output(sink)
            values = {r.key: r.value for r in records}.values() if node.is_table else [r.value for r in records]
            found[sink] = Counter(plain(value) for value in values if value is not None)
        return found, tester.counts.late


def rows_of(node: Node) -> list[Any]:
    """Its columns, as JSON has them."""
    fields = ", ".join(node.kinds)
    texts = node.rows.selectExpr(f"to_json(struct({fields}), map('ignoreNullFields', 'false')) AS row").collect()
    return [json.loads(text.row) for text in texts]


def plain(value: Any) -> str:
    """A row, alike whether a number is a text, as a key's column is, and with how many digits a time is written."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        # A join that follows one of two streams writes their time, too.
        return {name: _plain(item) for name, item in value.items() if name != JOINED_TIME}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", value):
        return re.sub(r"\.?0*Z$", "Z", value)
    return str(value) if isinstance(value, int) else value
