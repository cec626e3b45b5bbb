from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest

from airflow_provider.control.topics.cursor import missing
from airflow_provider.control.topics.liveness import SilenceClock
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting import condition_wait
from airflow_provider.control.waiting.condition_wait import ConditionWait
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Observation, Outcome, WaitResult
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, DeadlineError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from tests.builders import APPLICATION


class Seen(Condition, frozen=True):
    """Met as soon as the topics can be read."""

    def __str__(self) -> str:
        return "anything to be seen"

    def evaluate(self, seen: Observation) -> Evaluation:
        return Evaluation(Outcome.MET, "seen", {"application_id": seen.view.application_id})


class FakeFollower:
    """Each new one meets the next of what the brokers say; the last stands for all later ones."""

    answers: list[Exception | None]
    hearing = True

    def __init__(self, _: KafkaConnection, application_id: str) -> None:
        self.view = ControlView(application_id)
        self.silence = SilenceClock()

    async def __aenter__(self) -> FakeFollower:
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if answer is not None:
            raise answer
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def silent_for_s(self) -> dict[str, float]:
        return {}

    async def poll(self, _: float) -> bool:
        return False


GONE = missing(f"{APPLICATION}-assignment")
AWAY = BrokerUnreachableError("no broker answered")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condition_wait, "ControlFollower", FakeFollower)
    monkeypatch.setattr(condition_wait, "_PAUSE_S", 0.01)
    monkeypatch.setattr(condition_wait, "MISSING_S", 0.1)


def result(*answers: Exception | None, give_up_after_s: float = math.inf) -> WaitResult:
    FakeFollower.answers = list(answers)

    async def connect() -> Any:
        return None

    give_up_at = time.monotonic() + give_up_after_s
    return asyncio.run(ConditionWait(APPLICATION, Seen(), connect, give_up_at=give_up_at).result())


def test_control_topics_that_stay_missing_end_a_wait_without_a_deadline() -> None:
    found = result(GONE)

    with pytest.raises(TopicMissingError, match="correct the application id if it is misspelt") as error:
        found.value()
    assert str(error.value) == str(GONE)
    assert "\n" not in str(error.value)


def test_control_topics_that_brokers_do_not_know_yet_are_waited_for() -> None:
    assert result(GONE, GONE, None).value() == {"application_id": APPLICATION}


def test_connection_without_a_right_ends_a_wait_at_once() -> None:
    refused = ConfigurationError("Reading app-status is not authorized: grant Read")
    found = result(AWAY, refused)

    with pytest.raises(ConfigurationError, match=r"^Reading app-status is not authorized: grant Read$"):
        found.value()


def test_outage_between_two_looks_proves_no_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condition_wait, "MISSING_S", 0.03)

    assert result(*[GONE, AWAY] * 20, None).outcome is Outcome.MET


def test_deadline_that_comes_before_the_absence_is_certain_says_what_is_missing() -> None:
    found = result(GONE, give_up_after_s=0.03)

    assert found.missing == str(GONE)
    with pytest.raises(DeadlineError, match="does not exist"):
        found.value()
