"""A job of several stages in the tester: each record goes through all of them, and the result is the same however."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from airflow_provider.errors import ConfigurationError, DecodeError
from airflow_provider.streaming.planner.compiled_job import SourceSpec
from airflow_provider.streaming.planner.job import StatefulJob
from airflow_provider.testing import InputRecord, JobTester, check_batching, job_tester
from airflow_provider.testing.source_rows import SourceRows
from tests.unit.testing.word_count import LINES, LineRows, job_of

Planned = Callable[..., StatefulJob]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Planned:
    """Makes the job, whose lines become words as an explode would make them, without Spark."""

    def plan(*, combine: bool, partitions: int | None = None) -> StatefulJob:
        def rows_of(source: SourceSpec) -> SourceRows:
            return SourceRows(source) if source.from_stage else LineRows(source)

        monkeypatch.setattr(job_tester, "SourceRows", rows_of)
        return job_of(combine=combine, partitions=partitions)

    return plan


def lines_of(seed: int, number: int = 25) -> list[InputRecord]:
    randomness = random.Random(seed)
    words = ["a", "a", "a", "a", "to", "to", "be", "or", "not", "question"]
    return [
        InputRecord(
            " ".join(randomness.choices(words, k=randomness.randrange(1, 9))), partition=randomness.randrange(2)
        )
        for _ in range(number)
    ]


def true_counts(lines: list[InputRecord]) -> dict[str, int]:
    return dict(Counter(word for line in lines for word in line.value.split()))


@pytest.mark.parametrize("combine", [False, True], ids=["each-row", "combined"])
@pytest.mark.parametrize("partitions", [None, 1, 5], ids=["as-the-source", "one", "five"])
def test_words_of_all_partitions_are_counted_together(planned: Planned, combine: bool, partitions: int | None) -> None:
    job = planned(combine=combine, partitions=partitions)
    lines = lines_of(1)

    with JobTester(job, partitions=2) as tester:
        tester.pipe_inputs(lines[:10])
        for line in lines[10:]:
            tester.pipe_input(line)
        output = {record.key: record.value["count"] for record in tester.read_output()}

        assert output == true_counts(lines)
        assert {word: state["count"] for word, state in tester.states().items()} == true_counts(lines)
        assert tester.state("question", store="counts") == {"count": true_counts(lines)["question"], "length": 8}
        assert tester.counts.processed == len(lines)


@pytest.mark.parametrize("combine", [False, True], ids=["each-row", "combined"])
def test_result_does_not_depend_on_micro_batches_restarts_and_promotions(planned: Planned, combine: bool) -> None:
    job = planned(combine=combine, partitions=2)

    check_batching(job, lines_of(2, 12), cuts=4, partitions=2)


def test_combining_writes_one_record_a_word_and_micro_batch(planned: Planned) -> None:
    written = {}
    for combine in (False, True):
        job = planned(combine=combine)
        with JobTester(job) as tester:
            tester.pipe_input("to be or not to be to be")
            positions = [task.source_offset for task_id, task in tester._active.tasks.items() if task_id.stage == 1]  # noqa: SLF001
            written[combine] = positions

    assert written == {False: [8], True: [4]}


@pytest.mark.parametrize("combine", [False, True], ids=["each-row", "combined"])
def test_line_with_a_bad_word_is_left_out_whole(planned: Planned, combine: bool) -> None:
    job = planned(combine=combine)

    with JobTester(job.on_error("dead_letter", topic="bad")) as tester:
        tester.pipe_inputs(["to be", "or ? not ?", "to be"])

        assert {word: state["count"] for word, state in tester.states().items()} == {"to": 2, "be": 2}
        assert (tester.counts.processed, tester.counts.failed) == (3, 1)
        assert [(letter.topic, letter.offset) for letter in tester.dead_letters()] == [(LINES, 1)]


def test_bad_word_stops_its_task_where_the_policy_is_to_fail(planned: Planned) -> None:
    job = planned(combine=True)

    with JobTester(job) as tester:
        tester.pipe_input("to be")
        with pytest.raises(DecodeError, match=r"lines\[0\] at offset 1"):
            tester.pipe_input("or ? not")

        assert set(tester.states()) == {"to", "be"}


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        pytest.param(
            lambda tester: tester.state("a", store="words"), "store 'words', and the job has 'counts'", id="store"
        ),
        pytest.param(lambda tester: tester.read_output("out"), "sink 'out', and the job has 'word-counts'", id="sink"),
        pytest.param(
            lambda tester: tester.pipe_input("a", topic="x"), "source 'x', and the job has 'lines'", id="source"
        ),
    ],
)
def test_what_the_job_does_not_have_is_named(planned: Planned, ask: Callable[[JobTester], object], said: str) -> None:
    job = planned(combine=True)

    with JobTester(job) as tester, pytest.raises(ConfigurationError, match=said):
        ask(tester)
