from __future__ import annotations

import dataclasses

import msgspec
import pytest

from airflow_provider.common.json_codec import from_plain, to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.judgement import judge_outputs
from airflow_provider.control.drills.outputs import MAX_OUTPUTS, NotCountedError, compare, spans, written_by
from airflow_provider.control.records.drill_fault import OutputCut
from airflow_provider.control.records.history import OutputCheck, OutputCount
from airflow_provider.control.topics.commits import Commit
from airflow_provider.errors import StateError
from tests.unit.control.drills.test_continuity import commit

TASKS = (TaskId(0, 0), TaskId(0, 1))
BEFORE = OutputCut(tasks=TASKS, written={"out": 10, "dead": 1}, ends={"out": (6, 9), "dead": (2,)})
AFTER = OutputCut(tasks=TASKS, written={"out": 25, "dead": 1}, ends={"out": (20, 18), "dead": (2,)})


def counting(sequence: int, outputs: dict[str, int] | None) -> Commit:
    return msgspec.structs.replace(commit(sequence, "a", 1, 50), outputs=outputs)


def counts(out: int, dead: int = 0) -> OutputCheck:
    return compare(BEFORE, AFTER, {"out": out, "dead": dead})


def test_what_all_tasks_wrote_is_summed_by_topic() -> None:
    last = {TASKS[0]: counting(3, {"out": 7, "dead": 1}), TASKS[1]: counting(9, {"out": 3}), TaskId(0, 2): None}

    assert written_by(last) == {"out": 10, "dead": 1}
    assert written_by(last, between={"out"}) == {"dead": 1}


@pytest.mark.parametrize(
    ("last", "why"),
    [
        pytest.param({TASKS[0]: None}, "nothing was committed", id="no-commit"),
        pytest.param({TASKS[0]: counting(3, {})}, "neither a sink nor a dead-letter topic", id="no-sink"),
        pytest.param(
            {TASKS[0]: counting(3, {"out": 7}), TASKS[1]: counting(4, None)},
            r"commit 4 of a .* of task 0_1 is of a version of this package that counts no outputs",
            id="older-version",
        ),
    ],
)
def test_what_cannot_be_counted_is_said(last: dict[TaskId, Commit | None], why: str) -> None:
    with pytest.raises(NotCountedError, match=why):
        written_by(last)


def test_only_what_lies_between_the_cuts_is_read() -> None:
    assert spans("out", BEFORE, AFTER) == {0: (6, 20), 1: (9, 18)}
    assert spans("dead", BEFORE, AFTER) == {}
    grown = dataclasses.replace(AFTER, ends={"out": (6, 9, 4)})
    assert spans("out", BEFORE, grown) == {2: (0, 4)}


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        pytest.param((20, 8), "out was created again", id="shorter"),
        pytest.param((20,), "out was created again", id="fewer-partitions"),
        pytest.param((6 + MAX_OUTPUTS, 10), r"out got 2,000,001 records .* 2,000,000 are read", id="too-many"),
    ],
)
def test_topic_that_cannot_be_read_between_the_cuts_is_not_counted(ends: tuple[int, ...], why: str) -> None:
    with pytest.raises(NotCountedError, match=why):
        spans("out", BEFORE, dataclasses.replace(AFTER, ends={"out": ends}))


def test_as_many_outputs_as_the_commits_stand_for_pass() -> None:
    found = counts(15)

    assert found.counts == (
        OutputCount(topic="dead", committed=0, found=0),
        OutputCount(topic="out", committed=15, found=15),
    )
    judge_outputs(found)
    judge_outputs(OutputCheck(unmeasured="nothing was committed"))


def test_missing_outputs_are_an_error_with_figures() -> None:
    (count,) = (count for count in counts(12).counts if count.topic == "out")
    assert (count.missing, count.doubled) == (3, 0)

    with pytest.raises(StateError, match=r"out holds 12 records since the fault, .* stand for 15: 3 are missing\."):
        judge_outputs(counts(12))


def test_doubled_outputs_are_an_error_with_figures() -> None:
    (count,) = (count for count in counts(17).counts if count.topic == "out")
    assert (count.missing, count.doubled) == (0, 2)

    with pytest.raises(StateError, match=r"stand for 15: 2 are doubled, or another program writes there\."):
        judge_outputs(counts(17))
    with pytest.raises(StateError, match=r"out .* 3 are missing.* dead .* 1 are doubled|dead .* out "):
        judge_outputs(counts(12, dead=1))


def test_outputs_that_were_deleted_without_a_reason_are_an_error_with_the_settings() -> None:
    settings = "cleanup.policy=delete, retention.ms=604800000, retention.bytes=-1"
    lost = OutputCount(topic="out", committed=15, found=0, lost=16, settings=settings)

    with pytest.raises(StateError, match=rf"^out has lost 16 offsets .* \({settings}\) do not explain it"):
        judge_outputs(OutputCheck(counts=(lost,)))


def test_commits_that_count_nothing_or_from_nothing_again_are_not_judged() -> None:
    again = dataclasses.replace(AFTER, written={"out": 4, "dead": 1})

    assert compare(BEFORE, again, {"out": 15, "dead": 0}).unmeasured is not None
    assert compare(BEFORE, AFTER, {"out": 15, "dead": 0}, [counting(4, None)]).unmeasured is not None


def test_cut_goes_through_json() -> None:
    assert from_plain(to_plain(BEFORE), OutputCut) == BEFORE
