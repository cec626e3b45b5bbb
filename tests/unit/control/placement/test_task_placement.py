"""What is published of an assignment, and what a person is told beside it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.placement.task_placement import PlacedTasks, TaskPlacement, place_tasks
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.job_description import JobDescription, StageDescription
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import AssignmentError
from tests.builders import active, assigned, instance, placed, standby, view_of

A, B = instance("a", active(0), standby(1)), instance("b", active(1), standby(0))
BOTH_ON_A = instance("a", active(0), active(1))


class Publisher:
    """Keeps what is published."""

    def __init__(self, view: ControlView) -> None:
        self.view = view
        self.published: list[Assignment] = []

    def publish(self, assignment: Assignment) -> None:
        self.published.append(assignment)


def place(publisher: Publisher, **wanted: Any) -> PlacedTasks:
    given: Any = publisher
    return place_tasks(given, TaskPlacement(**wanted), lambda: (TaskId(0, 0), TaskId(0, 1)), Timeouts())


def test_tasks_are_counted_before_the_first_assignment() -> None:
    publisher = Publisher(view_of(None, instance("a"), instance("b")))

    done = place(publisher, reason="first")

    assert done.changed
    assert [placed(assignment) for assignment in publisher.published] == [["a b", "b a"]]
    assert done.to_plain()["tasks"]["0_0"] == {"active": "a", "standbys": ["b"]}


def test_nothing_is_published_where_nothing_changes() -> None:
    publisher = Publisher(view_of(assigned("a b", "b a"), A, B))

    done = place(publisher)

    assert (done.changed, publisher.published, done.warnings) == (False, [], ())


def test_copies_on_one_host_and_an_instance_that_does_not_run_are_told() -> None:
    there = [instance(name, active(task), host="h1") for name, task in (("a", 0), ("b", 1))]

    done = place(Publisher(view_of(assigned("a b", "b c"), *there)))

    silent, one_host = done.warnings
    assert silent.startswith("c: named by the assignment, and not running now.")
    assert one_host.startswith("All copies of 0_0 (h1) are on one host")


def test_task_that_has_to_move_goes_to_the_copy_that_is_warm() -> None:
    cold, warm = instance("b", standby(0, lag_records=None)), instance("c", standby(0, lag_records=900))

    done = place(Publisher(view_of(assigned("gone b c"), cold, warm)), instances=("b", "c"))

    assert placed(done.assignment) == ["c b"]


def test_active_moves_for_balance_onto_a_warm_copy_alone() -> None:
    def balanced(b: InstanceStatus) -> list[str]:
        before = assigned("a b", "a b")
        return placed(place(Publisher(view_of(before, BOTH_ON_A, b)), balance=True).assignment)

    assert balanced(instance("b", standby(0, lag_records=None), standby(1, lag_records=None))) == ["a b", "a b"]
    assert sorted(balanced(instance("b", standby(0), standby(1)))) == ["a b", "b a"]


def test_no_instance_at_all_is_an_error() -> None:
    with pytest.raises(AssignmentError, match="No instance"):
        place(Publisher(view_of(None)))


def test_instance_that_never_ran_may_be_named_and_is_told() -> None:
    ended = instance("old", state=InstanceState.ENDED)

    done = place(Publisher(view_of(assigned("a b", "b a"), A, B, ended)), instances=("a", "x", "old"))

    assert done.not_running == {"old": "is ended", "x": "has never run"}
    assert done.to_plain()["not_running"] == {"old": "is ended", "x": "has never run"}
    old, never = done.warnings
    assert never.startswith("x has never run: its tasks stand still until it runs.")
    assert never.endswith("Running now: a, b.")
    assert old.startswith("old is ended: ")


def test_instance_that_never_ran_and_gets_no_task_is_not_told() -> None:
    done = place(Publisher(view_of(assigned("a"), A)), instances=("a", "x"), num_standby_replicas=0)

    assert (done.not_running, done.warnings) == ({}, ())


def test_warnings_speak_of_operators_and_commands_alike() -> None:
    there = [instance(name, active(task), host="h1") for name, task in (("a", 0), ("b", 1))]

    words = " ".join(place(Publisher(view_of(assigned("a b", "b c"), *there))).warnings)

    assert "=True" not in words
    assert "'instances'" not in words


def described(**stages: int) -> JobDescription:
    """A job of some stages, by ``s<number>`` how many tasks each has."""
    numbers = {int(name.removeprefix("s")): count for name, count in stages.items()}
    return JobDescription(
        application_id="app",
        stages=tuple(
            StageDescription(
                number=number, name="s", source="in", steps=(), key="k", operation="o", partitions=partitions
            )
            for number, partitions in numbers.items()
        ),
        topics=(),
    )


def test_stage_that_was_added_gets_its_tasks_placed() -> None:
    view = view_of(assigned("a b", "b a"), A, B)
    view.job = described(s0=2, s1=2)
    publisher = Publisher(view)

    done = place(publisher)

    assert done.changed
    (published,) = publisher.published
    assert [str(task_id) for task_id in published.tasks] == ["0_0", "0_1", "1_0", "1_1"]
    assert {task.active for task in published.tasks.values()} == {"a", "b"}
    assert all(task.standbys for task in published.tasks.values())


def test_tasks_of_a_stage_that_is_gone_are_taken_out() -> None:
    view = view_of(assigned("a b", "b a"), A, B)
    view.job = described(s0=1)

    assert list(map(str, place(Publisher(view)).assignment.tasks)) == ["0_0"]


def test_job_as_it_was_described_changes_nothing_where_its_tasks_are_placed() -> None:
    view = view_of(assigned("a b", "b a"), A, B)
    view.job = described(s0=2)

    assert not place(Publisher(view)).changed
