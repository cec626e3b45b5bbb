"""Which answers to a lookup count, and when nothing more is waited for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.lookup.asking import FoundCopy, Lookup, outcome, place_of, settled, stands
from airflow_provider.control.records.assignment import TaskAssignment
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.control.records.lookup import (
    Answer,
    CopyAnswer,
    KeptState,
    Question,
    lookup_key,
    lookup_value,
    read_lookup,
)
from airflow_provider.control.records.task_state import Role, TaskState
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import AssignmentError, ConfigurationError
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from tests.builders import assigned

QUESTION: Final = Question(id="q", store="state", key=("ann",))
FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)
TASKS: Final = {FIRST: TaskAssignment("a", ("b",)), SECOND: TaskAssignment("b", ("a",))}
KEPT: Final = (KeptState(name="ann", value='{"n":1}'),)
LATE_S: Final = 3.0


def owner(task: TaskId, *states: KeptState, **more: Any) -> CopyAnswer:
    given = {"position": 10, "lag_records": 0, **more}
    return CopyAnswer(task=task, role=Role.ACTIVE, state=TaskState.RUNNING, states=states, **given)


def standby(task: TaskId, *states: KeptState, state: TaskState = TaskState.FOLLOWING, **more: Any) -> CopyAnswer:
    given = {"position": 8, "lag_records": 0, **more}
    return CopyAnswer(task=task, role=Role.STANDBY, state=state, states=states, **given)


def said(**of: CopyAnswer | tuple[CopyAnswer, ...]) -> list[Answer]:
    return [
        Answer(question="q", instance=name, copies=copies if isinstance(copies, tuple) else (copies,))
        for name, copies in of.items()
    ]


def of(answers: list[Answer], tasks: Mapping[TaskId, TaskAssignment] = TASKS) -> Lookup:
    return outcome(QUESTION, tasks, answers)


def test_owner_counts_and_its_standby_does_not() -> None:
    copy = owner(FIRST, *KEPT)
    found = of(said(b=(standby(FIRST, position=99), owner(SECOND)), a=(copy, standby(SECOND))))

    assert found.found == {FIRST: FoundCopy(instance="a", copy=copy, owner=True)}
    assert (found.absent, found.unknown) == ((SECOND,), {})


def test_copy_that_is_furthest_counts_while_nobody_runs_the_task() -> None:
    copy = standby(FIRST, *KEPT, position=9, lag_records=2)
    taking_over = standby(FIRST, state=TaskState.RESTORING, position=7, lag_records=4)
    found = of(said(b=taking_over, c=copy), {FIRST: TaskAssignment("b", ("c",))})

    assert found.found == {FIRST: FoundCopy(instance="c", copy=copy, owner=False)}


def test_instance_that_was_told_nothing_of_a_takeover_is_no_owner() -> None:
    old = said(a=owner(FIRST, *KEPT, position=10))
    tasks = {FIRST: TaskAssignment("b", ("a",))}
    now = owner(FIRST, KeptState(name="ann", value='{"n":5}'), position=8)

    assert not settled(tasks, old, 0.0)
    assert of(old, tasks).found == {FIRST: FoundCopy(instance="a", copy=old[0].copies[0], owner=False)}
    assert of([*old, *said(b=now)], tasks).found == {FIRST: FoundCopy(instance="b", copy=now, owner=True)}
    assert "whose owner did not answer" in stands(of(old, tasks).found[FIRST])


def test_owner_whose_task_has_failed_did_answer_and_says_what_it_holds() -> None:
    failed = dataclasses.replace(owner(FIRST, *KEPT), state=TaskState.FAILED)

    found = of(said(a=failed), {FIRST: TaskAssignment("a")}).found[FIRST]

    assert stands(found).startswith("active, failed, which does not process it now, ")


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        pytest.param(standby(FIRST), "b holds nothing of it, and its owner does not run it yet", id="still-a-standby"),
        pytest.param(
            dataclasses.replace(owner(FIRST), state=TaskState.OWNING),
            "b holds nothing of it, and its owner does not run it yet",
            id="taking-over",
        ),
        pytest.param(
            owner(FIRST, complete=False),
            "b found nothing of it, and did not get through its store in time",
            id="not-all",
        ),
    ],
)
def test_only_an_owner_that_saw_all_says_that_a_key_is_absent(copy: CopyAnswer, why: str) -> None:
    found = of(said(b=copy), {FIRST: TaskAssignment("b", ("a",))})

    assert (found.found, found.absent) == ({}, ())
    assert found.unknown == {FIRST: why}


@pytest.mark.parametrize(
    ("who", "answers", "why"),
    [
        pytest.param(TaskAssignment(None), [], "no instance has it", id="nobody"),
        pytest.param(TaskAssignment("a", ("b",)), [], "a and b did not answer", id="silent"),
        pytest.param(
            TaskAssignment("a", ("b",)),
            [*said(b=standby(FIRST, problem="its store is away")), Answer(question="q", instance="a", problem="busy")],
            "b: its store is away; a: busy",
            id="problems",
        ),
    ],
)
def test_why_nothing_is_known_of_a_task_is_said(who: TaskAssignment, answers: list[Answer], why: str) -> None:
    assert of(answers, {FIRST: who}).unknown == {FIRST: why}


def test_what_is_wrong_with_the_question_is_an_error() -> None:
    refusal = Answer(question="q", instance="a", refusal="The job has no store 'state', but 'other'")

    assert not settled(TASKS, [refusal], 0.0)
    assert settled(TASKS, [refusal], LATE_S)
    assert settled(TASKS, [refusal, dataclasses.replace(refusal, instance="b")], 0.0)
    with pytest.raises(ConfigurationError, match="no store 'state', but 'other'"):
        of([refusal])


def test_one_that_does_not_know_the_store_yet_hides_no_answer_of_another() -> None:
    refusal = Answer(question="q", instance="b", refusal="The job has no store 'state', but 'other'")
    stranger = dataclasses.replace(refusal, instance="zz")

    found = of([stranger, refusal, *said(a=owner(FIRST, *KEPT))])

    assert list(found.found) == [FIRST]
    assert found.unknown == {SECOND: "b: The job has no store 'state', but 'other'; a did not answer"}
    assert not settled(TASKS, [stranger], LATE_S)


def test_standby_alone_does_not_speak_for_its_owner() -> None:
    found = of(said(a=standby(FIRST)), {FIRST: TaskAssignment("b", ("a",))})

    assert found.unknown == {FIRST: "a holds nothing of it, and its owner did not answer"}


@pytest.mark.parametrize(
    ("answers", "waited_s", "over"),
    [
        pytest.param([], LATE_S, False, id="nobody-answered"),
        pytest.param(said(a=owner(FIRST, *KEPT)), 0.0, False, id="another-task-may-have-it-too"),
        pytest.param(said(a=owner(FIRST, *KEPT)), LATE_S, True, id="an-owner-has-it"),
        pytest.param(said(a=owner(FIRST)), LATE_S, False, id="the-other-task-is-open"),
        pytest.param(said(a=owner(FIRST), b=owner(SECOND)), 0.0, True, id="no-owner-has-it"),
        pytest.param(said(b=(standby(FIRST, *KEPT), owner(SECOND))), 0.0, False, id="an-owner-is-waited-for"),
        pytest.param(said(b=(standby(FIRST, *KEPT), owner(SECOND))), LATE_S, True, id="but-not-for-long"),
        pytest.param(
            said(b=(standby(FIRST), owner(SECOND))), LATE_S, False, id="only-an-owner-knows-that-it-is-absent"
        ),
        pytest.param(
            said(b=(standby(FIRST, problem="no"), owner(SECOND))), LATE_S, False, id="a-problem-is-no-answer-to-stop-at"
        ),
        pytest.param(
            [*said(b=(standby(FIRST), owner(SECOND))), Answer(question="q", instance="a", problem="busy")],
            0.0,
            True,
            id="all-have-said-what-they-can",
        ),
    ],
)
def test_waits_no_longer_than_an_answer_may_get_better(answers: list[Answer], waited_s: float, over: bool) -> None:
    assert settled(TASKS, answers, waited_s) is over


def view(job: JobDescription | None, assignment: str | None = "a b") -> ControlView:
    found = ControlView("app")
    found.job = job
    found.assignment = None if assignment is None else assigned(assignment)
    return found


def two_stores() -> JobDescription:
    orders = stream("orders", schema="customer STRING, product STRING", key="customer")
    one = orders.group_by("customer").aggregate(F.count().alias("n"), name="by-customer").sink("customers")
    other = orders.group_by("product").aggregate(F.count().alias("n"), name="by-product").sink("products")
    return StatefulJob("app", one, other).description()


def test_only_store_needs_no_name_and_several_do() -> None:
    job = JobDescription.of_topics("app", sources=("orders",))

    assert place_of(view(job), None)[0] == "state"
    with pytest.raises(ConfigurationError, match=r"store None, and has 'by-customer', 'by-product': name one"):
        place_of(view(two_stores()), None)


def test_store_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"'app' was asked for the store 'x', and has 'by-customer'"):
        place_of(view(two_stores()), "x")


def test_nobody_is_asked_where_nothing_is_assigned() -> None:
    with pytest.raises(AssignmentError, match="No task of 'app' that keeps the store 'state' is assigned"):
        place_of(view(JobDescription.of_topics("app"), None), None)


@pytest.mark.parametrize("record", [QUESTION, *said(a=owner(FIRST, *KEPT))], ids=["question", "answer"])
def test_record_is_read_as_it_was_written(record: Question | Answer) -> None:
    assert read_lookup(lookup_key(record), lookup_value(record)) == record


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"question", b'{"id":"\xff","store":"s","key":["a"]}'),
        (b"question", b"[" * 100_000),
        (b"question", b"{"),
        (b"question", None),
        (b"other", b"{}"),
        (None, b"{}"),
        (b"question", b'{"format":2}'),
    ],
)
def test_what_cannot_be_read_is_nobodys(key: bytes | None, value: bytes | None) -> None:
    assert read_lookup(key, value) is None
