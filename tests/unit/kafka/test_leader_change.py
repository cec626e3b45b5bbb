from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider.kafka import leader_change
from airflow_provider.kafka.leader_change import ask_leader

PASSING = [
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
]


class Leader:
    """Answers after some refusals."""

    def __init__(self, *refusals: int) -> None:
        self._refusals = list(refusals)
        self.asked: list[float] = []

    def __call__(self, left_s: float) -> str:
        self.asked.append(left_s)
        if self._refusals:
            raise KafkaException(KafkaError(self._refusals.pop(0)))
        return "answer"


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_change, "_PAUSE_S", 0.0)


@pytest.mark.parametrize("code", PASSING, ids=[KafkaError(code).name() for code in PASSING])
def test_leader_that_changes_is_asked_again(code: int) -> None:
    leader = Leader(code, code)

    assert ask_leader(leader, 60.0) == "answer"
    assert len(leader.asked) == 3
    assert 60.0 == leader.asked[0] > leader.asked[1] > leader.asked[2] > 0


def test_leader_that_does_not_come_ends_the_request_at_its_deadline() -> None:
    leader = Leader(*[KafkaError.NOT_LEADER_FOR_PARTITION] * 2)

    with pytest.raises(KafkaException, match="NOT_LEADER"):
        ask_leader(leader, 0.0)
    assert leader.asked == [0.0]


def test_any_other_answer_is_the_answer() -> None:
    leader = Leader(KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        ask_leader(leader, 60.0)
    assert len(leader.asked) == 1
