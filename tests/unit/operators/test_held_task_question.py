"""The question about held tasks; that Airflow keeps it, and calls back with the answer, is its own operator's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput

from airflow_provider.control.records.task_state import TaskState
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import BrokerUnreachableError, DeadlineError
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


def asking(monkeypatch: pytest.MonkeyPatch, view: ControlView, **arguments: Any) -> AskAboutHeldTasksOperator:
    monkeypatch.setattr(KafkaStreamsHook, "read", lambda *_: view)
    return AskAboutHeldTasksOperator(task_id="ask", application_id="orders", **arguments)


class Store(dict[str, Any]):
    """What a task keeps over its tries."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


def context(store: Store | None = None) -> Any:
    return {"task_instance": SimpleNamespace(id="the task's"), "task_state_store": Store() if store is None else store}


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
        asking(monkeypatch, whole).execute(context())


def test_question_names_each_held_task_with_its_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **question: asked.update(question))

    with pytest.raises(TaskAwaitingInput):
        asking(monkeypatch, HELD).execute(context())

    assert asked["options"] == [REPLAY, LEAVE]
    assert asked["subject"] == "Tasks of orders are held"
    lines = [line for line in asked["body"].splitlines() if line.startswith("- ")]
    assert [line.split(":")[0] for line in lines] == ["- **0_0** on a", "- **0_2** on a"]
    assert lines[0].endswith("no JSON at offset 7")


def test_replay_takes_what_is_held_when_the_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = asking(monkeypatch, HELD)

    assert operator.execute_complete(context(), answered(REPLAY)) == [{"instance": "a", "tasks": ["0_0", "0_2"]}]
    assert operator.execute_complete(context(), answered(LEAVE)) == []


def test_callback_that_fails_leaves_the_question_and_the_other_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def fail(_: Any) -> None:
        raise ConnectionError("the chat does not answer")

    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **_: None)
    operator = asking(monkeypatch, HELD, notifiers=[fail, told.append])

    with pytest.raises(TaskAwaitingInput):
        operator.execute(context())

    assert len(told) == 1


def test_question_that_nobody_answered_in_its_time_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    unanswered = {"error": "The response timeout has passed.", "error_type": "timeout"}

    with pytest.raises(AirflowFailException, match="Nobody said within 2 days, 0:00:00") as raised:
        asking(monkeypatch, HELD, response_timeout=timedelta(days=2)).execute_complete(context(), unanswered)

    assert isinstance(raised.value, DeadlineError)
    assert "stay held" in str(raised.value)


def test_bound_on_the_work_of_a_task_is_none_on_a_persons_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    hour = timedelta(hours=1)

    for arguments in ({"execution_timeout": hour}, {"default_args": {"execution_timeout": hour}}):
        operator = asking(monkeypatch, HELD, **arguments)
        assert (operator.response_timeout, operator.execution_timeout) == (None, hour)


def test_answer_outlives_a_try_that_could_not_carry_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, store = asking(monkeypatch, HELD), Store()
    monkeypatch.setattr(KafkaStreamsHook, "read", refuse)
    with pytest.raises(BrokerUnreachableError):
        operator.execute_complete(context(store), answered(REPLAY))
    monkeypatch.setattr(KafkaStreamsHook, "read", lambda *_: HELD)

    assert operator.execute(context(store)) == [{"instance": "a", "tasks": ["0_0", "0_2"]}]
    # Cleared by a person, it asks anew.
    assert not store


def refuse(*_: Any) -> ControlView:
    raise BrokerUnreachableError("no broker answered")
