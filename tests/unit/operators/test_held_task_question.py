"""The question about held tasks; that Airflow keeps it, and calls back with the answer, is its own operator's."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput

from airflow_provider.control.status import TaskState
from airflow_provider.control.view import ControlView
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.operators.held_task_question import LEAVE, REPLAY, AskAboutHeldTasksOperator
from tests.builders import active, assigned, instance, view_of

BROKEN: dict[str, Any] = {"error": "no JSON\nat offset 7", "error_kind": "DecodeError"}
FAILED = TaskState.FAILED
HELD = view_of(
    assigned("a", "b", "a"),
    instance("a", active(0, FAILED, **BROKEN), active(2, FAILED, **BROKEN)),
    instance("b", active(1)),
)


def asking(monkeypatch: pytest.MonkeyPatch, view: ControlView) -> AskAboutHeldTasksOperator:
    monkeypatch.setattr(KafkaStreamsHook, "read", lambda *_: view)
    return AskAboutHeldTasksOperator(task_id="ask", application_id="orders", notifiers=[])


def answered(option: str) -> dict[str, Any]:
    return {
        "chosen_options": [option],
        "params_input": {},
        "responded_at": datetime.now(UTC),
        "responded_by_user": {"id": "1", "name": "ann"},
    }


def test_nobody_is_asked_where_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = view_of(assigned("a"), instance("a", active(0)))

    with pytest.raises(AirflowSkipException, match="No task of 'orders' is held"):
        asking(monkeypatch, whole).execute({})


def test_question_names_each_held_task_with_its_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **question: asked.update(question))

    context: Any = {"task_instance": SimpleNamespace(id="the task's")}

    with pytest.raises(TaskAwaitingInput):
        asking(monkeypatch, HELD).execute(context)

    assert asked["options"] == [REPLAY, LEAVE]
    assert asked["subject"] == "Tasks of orders are held"
    lines = [line for line in asked["body"].splitlines() if line.startswith("- ")]
    assert [line.split(":")[0] for line in lines] == ["- **0_0** on a", "- **0_2** on a"]
    assert lines[0].endswith("no JSON at offset 7")


def test_replay_takes_what_is_held_when_the_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = asking(monkeypatch, HELD)

    assert operator.execute_complete({}, answered(REPLAY)) == [{"instance": "a", "tasks": ["0_0", "0_2"]}]
    assert operator.execute_complete({}, answered(LEAVE)) == []
