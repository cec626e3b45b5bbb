"""Whether an application has no control topics, as against brokers that do not know them yet."""

from __future__ import annotations

import time
from typing import Final

from airflow_provider.control.topics.cursor import MISSING_S
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, status_topic
from airflow_provider.kafka.topic_admin import TopicAdmin

_PAUSE_S: Final = 1.0


def stay_absent(connection: KafkaConnection, application_id: str) -> bool:
    """Whether the brokers do not know both control topics of an application, asked again and again for 20 s.

    Returns:
        False as soon as both are known, and where no broker answers: then nothing can be said.
    """
    topics = (assignment_topic(application_id), status_topic(application_id))
    deadline = time.monotonic() + MISSING_S
    while True:
        try:
            admin = TopicAdmin(connection)  # a new client: an old one remembers what it was answered
            if all(admin.describe(topic) is not None for topic in topics):
                return False
        except BrokerUnreachableError:
            return False
        if time.monotonic() >= deadline:
            return True
        time.sleep(_PAUSE_S)
