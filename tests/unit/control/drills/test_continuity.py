from __future__ import annotations

import msgspec
import pytest

from airflow_provider.changelog import commit_record
from airflow_provider.changelog.commit_record import SourcePosition
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.continuity import check_chain, check_resumed_exactly, last_before
from airflow_provider.control.topics.commits import COMMIT_KEY, Commit, Source
from airflow_provider.errors import StateError
from tests.builders import commit_of

TASK = TaskId(0, 0)


def commit(sequence: int, instance: str, generation: int, offset: int, processed: int | None = None) -> Commit:
    return Commit(
        sequence=sequence,
        generation=generation,
        instance=instance,
        incarnation=1,
        sources={"orders": Source(offset)},
        processed=offset if processed is None else processed,
    )


GOOD = [commit(5, "a", 1, 50), commit(6, "a", 1, 60), commit(7, "b", 3, 75, 70), commit(8, "b", 3, 80, 75)]


def test_commit_record_is_read_as_it_is_written() -> None:
    record = commit_of(
        task=TASK,
        sequence=6,
        instance="a",
        committed_at_ms=5,
        sources={"orders": SourcePosition(60, "id")},
        processed=60,
        outputs={"totals": 9},
    )

    read = msgspec.json.decode(record.to_bytes(), type=Commit)
    assert read == msgspec.structs.replace(GOOD[1], outputs={"totals": 9})
    uncounted = msgspec.json.decode(
        b'{"sequence":6,"generation":1,"instance":"a","incarnation":1,"sources":{}}', type=Commit
    )
    assert uncounted.outputs is None, "of an earlier version"
    assert commit_record.COMMIT_KEY == COMMIT_KEY


def test_commits_that_go_on_from_one_another_pass() -> None:
    check_chain(TASK, [])
    check_chain(TASK, GOOD)
    check_chain(TASK, [GOOD[0], GOOD[3]])  # what lay between them was compacted away


def test_instance_that_was_started_again_goes_on_in_its_generation_and_its_earlier_process_does_not() -> None:
    again = msgspec.structs.replace(commit(9, "b", 3, 90, 85), incarnation=2)
    zombie = commit(10, "b", 3, 95, 90)

    check_chain(TASK, [*GOOD, again])
    with pytest.raises(StateError, match="two owners wrote in one generation"):
        check_chain(TASK, [*GOOD, again, zombie])


@pytest.mark.parametrize(
    ("last", "why"),
    [
        pytest.param(commit(9, "a", 1, 90), "an owner wrote after its successor", id="zombie"),
        pytest.param(commit(8, "b", 3, 85), "it does not go on from the commit before it", id="made-twice"),
        pytest.param(commit(9, "c", 3, 90), "two owners wrote in one generation", id="two-owners"),
        pytest.param(commit(9, "b", 3, 79, 75), "its source went back", id="went-back"),
        pytest.param(commit(9, "b", 3, 90, 86), "records were counted twice", id="doubled"),
    ],
)
def test_commit_that_cannot_follow_is_an_error_with_both(last: Commit, why: str) -> None:
    with pytest.raises(StateError, match=rf"Task 0_0: commit {last.sequence} of .* follows commit 8 of b .*: {why}"):
        check_chain(TASK, [*GOOD, last])


def test_last_commit_before_an_owner_is_known_where_nothing_is_missing_between() -> None:
    assert last_before(GOOD, 2) == GOOD[1]
    assert last_before(GOOD, 1) is None
    assert last_before([GOOD[0], GOOD[2]], 2) is None


def test_owner_has_to_go_on_at_the_very_offset() -> None:
    check_resumed_exactly({TASK: GOOD}, 2, {TASK: 60})
    check_resumed_exactly({}, 2, {TASK: 1})
    for offset in (59, 61):
        with pytest.raises(StateError, match=f"went on at source offset {offset}, after commit 6 of a"):
            check_resumed_exactly({TASK: GOOD}, 2, {TASK: offset})
