from __future__ import annotations

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.topic_repair import committed_by_the_newest, other_stores
from airflow_provider.control.topics.commits import Commit
from tests.builders import assigned, instance

A, B = instance("a", incarnation=5), instance("b", incarnation=7)
STATUSES = {"a": A, "b": B}


def by(name: str, incarnation: int) -> Commit:
    return Commit(sequence=1, generation=1, instance=name, incarnation=incarnation, sources={})


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        pytest.param([by("a", 5), by("b", 7)], True, id="the newest owners committed there"),
        pytest.param([by("a", 5)], True, id="a task without input never committed"),
        pytest.param([], False, id="no commit"),
        pytest.param([by("a", 4), by("b", 7)], False, id="an owner that was started again has not committed there"),
        pytest.param([by("b", 7)], False, id="another instance owns the task now"),
        pytest.param([by("gone", 5)], False, id="an instance that is not known"),
    ],
)
def test_changelog_has_the_state_where_the_newest_owners_committed_into_it(
    commits: list[Commit], expected: bool
) -> None:
    newest = {TaskId(0, number): commit for number, commit in enumerate(commits)}

    assert committed_by_the_newest(assigned("a b", "b a"), STATUSES, newest) is expected


def test_changelog_that_another_application_may_call_its_own_is_no_evidence() -> None:
    topics = {
        "x-state-changelog",
        "x-y-state-changelog",
        "x-changelog",
        "x--changelog",
        "x-assignment",
        "xy-state-changelog",
    }

    assert other_stores("x", topics) == ["state", "y-state"]
    assert other_stores("x", {*topics, "x-y-assignment"}) == ["state"]
