from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider.kafka.broker_error import ask_leader, broker_error, refusal

ROOT = Path(__file__).parents[3]
RIGHTS = {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Create on",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Read on the consumer group",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Describe and DescribeConfigs on its topics, Read on .*, Write on ",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Describe and Write on the transactional ids",
}


@pytest.mark.parametrize(("code", "rights"), RIGHTS.items(), ids=[KafkaError(code).name() for code in RIGHTS])
def test_refusal_names_the_rights_and_where_all_of_them_stand(code: int, rights: str) -> None:
    refused = refusal(KafkaError(code), "Reading orders")

    assert refused is not None
    assert re.search(f"^Reading orders is not authorized .*: grant the connection's user {rights}", str(refused))
    ((heading, page),) = re.findall(r"'(\w+)' in (\S+\.md)", str(refused))
    assert f"## {heading}\n" in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "code", [KafkaError.REQUEST_TIMED_OUT, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.POLICY_VIOLATION]
)
def test_other_answers_are_no_refusal(code: int) -> None:
    assert refusal(KafkaError(code), "Reading orders") is None


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "AccessError", "not authorized"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "AccessError", "not authorized"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "LoginRefusedError", "user name, password and SASL mechanism"),
        (KafkaError.POLICY_VIOLATION, "ConfigurationError", "was refused by the brokers"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, "ConfigurationError", "was refused by the brokers"),
        (KafkaError.MSG_SIZE_TOO_LARGE, "ConfigurationError", "max.message.bytes"),
        (KafkaError.TOPIC_EXCEPTION, "TopicMismatchError", "collide"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "TopicMissingError", "no such topic"),
        (KafkaError.FENCED_LEADER_EPOCH, "BrokerUnreachableError", "that all brokers run"),
        (KafkaError._ALL_BROKERS_DOWN, "BrokerUnreachableError", "look at the brokers"),
    ],
)
def test_answer_says_what_to_do(code: int, kind: str, words: str) -> None:
    error = broker_error(KafkaError(code), "The transaction of 'app-0_0'", "look at the brokers")

    assert type(error).__name__ == kind
    assert words in str(error)
    assert str(error).startswith("The transaction of 'app-0_0' ")
    assert ("look at the brokers" in str(error)) is (words == "look at the brokers")


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
    monkeypatch.setattr("airflow_provider.kafka.broker_error._PAUSE_S", 0.0)


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
