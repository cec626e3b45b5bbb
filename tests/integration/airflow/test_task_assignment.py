"""The first assignment, and later ones."""

from __future__ import annotations

import dataclasses
import os
import signal
from typing import Any

import pytest

from airflow_provider.errors import (
    AssignmentError,
)
from airflow_provider.operators.assignment import AssignTasksOperator
from airflow_provider.operators.topics import CreateChangelogTopicsOperator
from tests.builders import active, instance, placed
from tests.integration.airflow.conftest import Deploy
from tests.integration.airflow.running import context, run
from tests.integration.launch.application import Application
from tests.waiting import wait_until


def test_tasks_are_shared_among_the_running(application: Application, pair: list[dict[str, Any]]) -> None:
    view = application.view()

    assert view.assignment is not None
    assert placed(view.assignment) == ["a b", "b a"]


def test_nothing_is_published_when_nothing_changes(application: Application, pair: list[dict[str, Any]]) -> None:
    again = run(AssignTasksOperator(task_id="assign", application_id=application.id))

    assert (again["generation"], again["changed"]) == (1, False)


def test_nobody_to_assign_to_is_an_error(application: Application) -> None:
    create: dict[str, Any] = {"source_topics": f"{application.id}-source", "application_id": application.id}
    CreateChangelogTopicsOperator(task_id="topics", **create).execute(context())

    with pytest.raises(AssignmentError, match="No instance"):
        AssignTasksOperator(task_id="assign", application_id=application.id).execute(context())


def test_assignment_after_a_loss_of_all_follows_what_was_carried_out(application: Application) -> None:
    create: dict[str, Any] = {"source_topics": f"{application.id}-source", "application_id": application.id}
    CreateChangelogTopicsOperator(task_id="topics", **create).execute(context())
    running = instance("a", active(0, committed_generation=57), active(1, generation=55))
    application.write(dataclasses.replace(running, application_id=application.id, generation=56))

    answer = run(AssignTasksOperator(task_id="assign", application_id=application.id))

    assignment = wait_until(lambda: application.view().assignment, 20.0, "the commit to be read")
    assert assignment is not None
    assert (answer["generation"], assignment.generation) == (58, 58)
    assert {task.active_since for task in assignment.tasks.values()} == {58}


def test_returned_instance_gets_its_share(application: Application, pair: list[dict[str, Any]]) -> None:
    run(AssignTasksOperator(task_id="assign", application_id=application.id, instances=["b"]))
    before = application.view().assignment
    assert before is not None
    assert placed(before) == ["b", "b"]

    after = run(AssignTasksOperator(task_id="balance", application_id=application.id, balance=True))

    view = application.view()
    assert view.assignment is not None
    assert sorted(placed(view.assignment)) == ["a b", "b a"]
    assert after["changed"] is False
    assert after["generation"] == view.assignment.generation == before.generation + 2


def test_third_instance_gets_its_share(application: Application, pair: list[dict[str, Any]], deploy: Deploy) -> None:
    run(AssignTasksOperator(task_id="assign", application_id=application.id, instances=["a", "b"]))
    run(deploy("c"))

    run(AssignTasksOperator(task_id="balance", application_id=application.id, balance=True))

    view = application.view()
    assert view.assignment is not None
    loads = [len(view.assignment.active_on(n)) + len(view.assignment.standby_on(n)) for n in ("a", "b", "c")]
    assert sorted(loads) == [1, 1, 2]


def test_copies_on_one_host_are_named(application: Application, pair: list[dict[str, Any]]) -> None:
    answer = run(AssignTasksOperator(task_id="assign", application_id=application.id))

    assert answer["on_one_host"] == dict.fromkeys(("0_0", "0_1"), os.uname().nodename)


def test_instance_that_is_silent_just_now_keeps_what_it_has(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    os.kill(pair[0]["pid"], signal.SIGSTOP)
    try:
        wait_until(lambda: application.view().silent_for_s["a"] > 1.0, 20.0, "a's silence")
        answer = run(AssignTasksOperator(task_id="assign", application_id=application.id, instance_timeout_s=1.0))
    finally:
        os.kill(pair[0]["pid"], signal.SIGCONT)

    assert (answer["generation"], answer["changed"]) == (1, False)
