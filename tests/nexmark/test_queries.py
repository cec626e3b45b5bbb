"""Each query through the tester, against what Spark's SQL comes to over the same events.

Events come late by no more than the watermark, so nothing is left out as late: where that could happen, SQL over all
events would be no measure.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest
from pyspark.sql import SparkSession

from airflow_provider.streaming.planner.stage_plan import source_topics
from airflow_provider.testing import InputRecord, JobTester
from airflow_provider.testing.source_rows import local_spark
from tests.nexmark.generator import Event, Model, side_input
from tests.nexmark.oracle import SQL, Oracle
from tests.nexmark.queries import QUERIES
from tests.nexmark.results import CLOSING, Row, differences, rows_of
from tests.spark_settings import with_settings

pytestmark = pytest.mark.xdist_group("nexmark")

SIDE_INPUT = side_input(range(1_000, 1_200, 2))
CUTS = 4
WATERMARK_MS = 3_000


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """The one that the tester uses, too."""
    with with_settings(local_spark(), {"spark.sql.shuffle.partitions": "1"}) as session:
        yield session


class Sample:
    """Events of a model, and what the queries have to come to."""

    def __init__(self, spark: SparkSession, model: Model) -> None:
        self.model, self.events = model, [*SIDE_INPUT, *model.stream()]
        self.oracle = Oracle(spark, self.events)

    def check(self, query: str) -> None:
        """Run a query, with its input cut at random, and an owner lost twice; compare all that came out.

        The first micro-batch of each topic is shorter than the watermark: nobody waits for a partition that never held
        a record, so what comes first to one is late where others are further already.
        """
        chance = random.Random(f"{self.model.seed} {query}")
        job = QUERIES[query]()
        topics = sorted(source_topics(job.stages))
        events = [event for event in self.events if event.topic in topics and event.topic != "side_input"]
        begun = sum(event.at_ms < self.model.first_ms + WATERMARK_MS for event in events)
        cuts = [0, begun, *sorted(chance.sample(range(begun + 1, len(events)), CUTS - 2)), len(events)]
        parts = [events[begin:end] for begin, end in itertools.pairwise(cuts)]
        if query in CLOSING:
            parts.append(self.model.closing())
        with JobTester(job, partitions=3) as tester:
            if "side_input" in topics:
                pipe(tester, SIDE_INPUT, "side_input")
            lost = chance.sample(range(1, len(parts)), 2)
            for number, part in enumerate(parts):
                if number in lost:
                    tester.restart(store="empty") if number == lost[0] else tester.promote_standby()
                # How far one topic is read before another is nobody's promise.
                for topic in chance.sample(topics, len(topics)):
                    pipe(tester, part, topic)
            found = rows_of(query, ((record.key, record.value) for record in tester.read_output()))
            counts = tester.counts
        assert (counts.late, counts.failed) == (0, 0)
        expected = self.oracle.rows(query)
        assert expected
        assert not (wrong := differences(expected, found)), f"{self.model}\n{wrong}"


def pipe(tester: JobTester, events: Sequence[Event], topic: str) -> None:
    """Those of a topic, as a micro-batch."""
    records = [
        InputRecord(event.value, key=event.key, timestamp_ms=event.at_ms, topic=topic)
        for event in events
        if event.topic == topic
    ]
    if records:
        tester.pipe_inputs(records)


@pytest.fixture(scope="module")
def sample(spark: SparkSession) -> Sample:
    return Sample(spark, Model(events=2_500, seed=1))


@pytest.fixture(scope="module", params=[2, 3, 4, 5, 6], ids="seed{}".format)
def larger(spark: SparkSession, request: pytest.FixtureRequest) -> Sample:
    return Sample(spark, Model(events=10_000, seed=request.param))


QUICK = {"q1", "q2", "q14", "q18", "q22"}
"""One task, a step or two: these run with every `make test`."""


@pytest.mark.parametrize("query", [pytest.param(q, marks=[] if q in QUICK else pytest.mark.long) for q in QUERIES])
def test_query_comes_to_what_sql_says(query: str, sample: Sample) -> None:
    sample.check(query)


@pytest.mark.schedules
@pytest.mark.parametrize("query", QUERIES)
def test_query_over_more_events_comes_to_what_sql_says(query: str, larger: Sample) -> None:
    larger.check(query)


def test_every_query_has_its_sql() -> None:
    assert list(QUERIES) == list(SQL) == [f"q{n}" for n in range(23) if n not in (6, 10, 12)]


def test_missing_row_and_one_too_many_are_named() -> None:
    rows: list[Row] = [{"a": 1}, {"a": 2.0}]

    assert differences(rows, [{"a": 2}, {"a": 1}]) == ""
    assert differences(rows, [{"a": 2}, {"a": 2}]).startswith("1 missing and 1 too many, of 2")
