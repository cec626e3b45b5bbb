from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from airflow_provider.kafka.broker_error import broker_error


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "ConfigurationError", "not authorized"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "ConfigurationError", "not authorized"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "ConfigurationError", "credentials"),
        (KafkaError.POLICY_VIOLATION, "ConfigurationError", "was refused by the brokers"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, "ConfigurationError", "was refused by the brokers"),
        (KafkaError.MSG_SIZE_TOO_LARGE, "ConfigurationError", "max.message.bytes"),
        (KafkaError.TOPIC_EXCEPTION, "TopicMismatchError", "collide"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "TopicMissingError", "no such topic"),
        (KafkaError._ALL_BROKERS_DOWN, "BrokerUnreachableError", "look at the brokers"),
    ],
)
def test_answer_says_what_to_do(code: int, kind: str, words: str) -> None:
    error = broker_error(KafkaError(code), "The transaction of 'app-0_0'", "look at the brokers")

    assert type(error).__name__ == kind
    assert words in str(error)
    assert str(error).startswith("The transaction of 'app-0_0' ")
    assert ("look at the brokers" in str(error)) is (kind == "BrokerUnreachableError")
