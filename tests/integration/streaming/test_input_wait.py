"""What an idle query waits for, on a real broker: a record that a reader of committed records sees."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from airflow_provider.common.in_thread import in_thread
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.streaming.driver.slots.input_wait import InputWait
from tests.brokers import settings_of_broker

pytestmark = pytest.mark.xdist_group("proxy")

PARTITIONS = 3
QUEUE_BACKOFF_S = 1.0
"""For how long librdkafka fetches nothing, by default, where an event lies in its queue."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker of these tests' own, which one of them kills; what no rule speaks of is allowed."""
    rules = (
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("allow.everyone.if.no.acl.found", "true"),
    )
    with EmbeddedBroker(settings_of_broker(tmp_path_factory.mktemp("kafka"), overrides=rules)) as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap_servers(broker: EmbeddedBroker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers})


@pytest.fixture
def deny(admin: AdminClient) -> Callable[[ResourceType, str], None]:
    """Take the right to read, from every client."""

    def one(kind: ResourceType, name: str) -> None:
        rule = AclBinding(
            kind, name, ResourcePatternType.LITERAL, "User:*", "*", AclOperation.ALL, AclPermissionType.DENY
        )
        for made in admin.create_acls([rule]).values():
            made.result(20.0)

    return one


@pytest.fixture
def topic(bootstrap_servers: str, application_id: str) -> str:
    TopicAdmin(KafkaConnection(bootstrap_servers)).ensure(
        [TopicSpec(name=f"{application_id}-in", partitions=PARTITIONS)]
    )
    return f"{application_id}-in"


@pytest.fixture
def producer(bootstrap_servers: str, topic: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(20.0)
    return producer


class Waiting:
    """Waits in a thread of its own."""

    def __init__(self, wait: InputWait) -> None:
        self._wait = wait
        self.given_up = threading.Event()
        self.asked = 0

    def begin(self, *offsets: int | None) -> Future[None]:
        self.asked = 0
        return in_thread(lambda: self._wait.wait(dict(enumerate(offsets)), self._is_given_up), "wait")

    def goes_on(self, waited: Future[None], asked: int = 20) -> bool:
        """Whether it still waits after the brokers were asked so many more times."""
        until = self.asked + asked
        while self.asked < until and not waited.done():
            time.sleep(0.01)
        return not waited.done()

    def _is_given_up(self) -> bool:
        self.asked += 1
        return self.given_up.is_set()


@pytest.fixture
def waiting(bootstrap_servers: str, application_id: str, topic: str) -> Iterator[Waiting]:
    wait = InputWait(KafkaConnection(bootstrap_servers), topic, application_id, range(PARTITIONS))
    waiting = Waiting(wait)
    yield waiting
    waiting.given_up.set()
    wait.close()


@pytest.fixture
def put(producer: Producer, topic: str) -> Callable[[int], None]:
    """One record, committed."""

    def one(partition: int) -> None:
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=partition)
        producer.commit_transaction(20.0)

    return one


def test_first_record_of_any_partition_ends_the_wait(waiting: Waiting, put: Callable[[int], None]) -> None:
    waited = waiting.begin(None, None, None)
    assert waiting.goes_on(waited)

    put(2)

    assert waited.result(20) is None


def test_record_that_is_there_already_ends_the_wait(waiting: Waiting, put: Callable[[int], None]) -> None:
    put(1)
    put(1)

    assert waiting.begin(None, 2, None).result(20) is None


def test_wait_after_wait_knows_old_records_from_new_ones(waiting: Waiting, put: Callable[[int], None]) -> None:
    offset = 0
    for _ in range(5):
        put(0)
        assert waiting.begin(offset, None, None).result(20) is None
        offset += 2  # the record, and its transaction's marker
        waited = waiting.begin(offset - 1, None, None)
        assert waiting.goes_on(waited), "only a marker is left"
        waiting.given_up.set()
        assert waited.result(20) is None
        waiting.given_up.clear()


def test_what_may_not_be_read_yet_or_ever_is_nothing_to_read(
    waiting: Waiting, producer: Producer, topic: str, put: Callable[[int], None]
) -> None:
    waited = waiting.begin(None, None, None)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush(20.0)
    assert waiting.goes_on(waited)

    producer.abort_transaction(20.0)
    assert waiting.goes_on(waited)

    put(0)
    assert waited.result(20) is None


def test_records_that_were_deleted_unread_end_the_wait_with_the_first_that_is_left(
    waiting: Waiting, admin: AdminClient, topic: str, put: Callable[[int], None]
) -> None:
    for _ in range(4):
        put(0)
    for deleted in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        deleted.result(20.0)

    assert waiting.begin(2, None, None).result(20) is None


def test_record_right_after_the_end_was_reached_is_not_kept_waiting(
    waiting: Waiting, put: Callable[[int], None]
) -> None:
    late, offset = [], 0
    for _ in range(9):
        waited = waiting.begin(offset, None, None)
        assert waiting.goes_on(waited, asked=4), "it has reached every end"
        put(0)
        committed_at = time.monotonic()
        assert waited.result(20) is None
        late.append(time.monotonic() - committed_at)
        offset += 2  # the record, and its transaction's marker

    assert statistics.median(late) < QUEUE_BACKOFF_S / 2, late


def test_wait_outlives_a_broker(waiting: Waiting, broker: EmbeddedBroker, put: Callable[[int], None]) -> None:
    put(0)
    waited = waiting.begin(2, None, None)
    assert waiting.goes_on(waited)

    broker.kill()
    assert waiting.goes_on(waited)
    broker.restart()
    assert waiting.goes_on(waited)
    put(0)

    assert waited.result(60) is None


def test_wait_on_a_topic_that_is_gone_can_be_given_up(waiting: Waiting, admin: AdminClient, topic: str) -> None:
    waited = waiting.begin(None, None, None)
    assert waiting.goes_on(waited)

    for deleted in admin.delete_topics([topic]).values():
        deleted.result(20.0)
    assert waiting.goes_on(waited, asked=60)
    waiting.given_up.set()

    assert waited.result(20) is None


def test_records_of_a_topic_of_the_same_name_are_not_what_is_waited_for(
    waiting: Waiting, admin: AdminClient, bootstrap_servers: str, topic: str, put: Callable[[int], None]
) -> None:
    put(0)
    put(0)
    waited = waiting.begin(4, None, None)
    assert waiting.goes_on(waited)
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(20.0)
    TopicAdmin(KafkaConnection(bootstrap_servers)).ensure([TopicSpec(name=topic, partitions=PARTITIONS)])

    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(20.0) == 0

    assert waiting.goes_on(waited, asked=40)


def test_source_that_may_not_be_read_is_left_to_spark(
    waiting: Waiting, deny: Callable[[ResourceType, str], None], topic: str
) -> None:
    deny(ResourceType.TOPIC, topic)

    assert waiting.begin(None, None, None).result(20) is None


def test_source_that_may_not_be_read_is_left_to_spark_although_the_client_said_so_before(
    bootstrap_servers: str, application_id: str, topic: str, deny: Callable[[ResourceType, str], None]
) -> None:
    deny(ResourceType.TOPIC, topic)
    wait = InputWait(KafkaConnection(bootstrap_servers), topic, application_id, range(PARTITIONS))
    # librdkafka says it once, to whoever listens then: nobody. Where it has not said it by now, the wait is told.
    time.sleep(2)

    waited = in_thread(lambda: wait.wait({0: None}, lambda: False), "wait")

    assert waited.result(20) is None
    wait.close()


def test_no_right_to_a_group_is_needed(
    bootstrap_servers: str,
    application_id: str,
    topic: str,
    deny: Callable[[ResourceType, str], None],
    put: Callable[[int], None],
) -> None:
    deny(ResourceType.GROUP, f"{application_id}-input")
    wait = InputWait(KafkaConnection(bootstrap_servers), topic, application_id, range(PARTITIONS))
    waiting = Waiting(wait)
    waited = waiting.begin(None, None, None)
    assert waiting.goes_on(waited)

    put(1)

    assert waited.result(20) is None
    wait.close()
