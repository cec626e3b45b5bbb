"""The simulator's model of the brokers held to Kafka: the same random programs, run against both, come to the same."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider.kafka.transactional_producer import flush
from tests.simulation import clients
from tests.simulation import kernel as kernels
from tests.simulation.broker import Broker
from tests.simulation.clients import Network
from tests.simulation.kernel import Kernel, Process

pytestmark = [pytest.mark.integration, pytest.mark.long]
PARTITIONS = 2


@dataclass(frozen=True)
class Step:
    """What a program does.

    Args:
        what: ``own``, ``begin``, ``send``, ``offsets``, ``commit`` or ``abort``.
        producer: by which of those that owned the transactional id, one after the other.
        partition: where a record goes.
    """

    what: str
    producer: int = 0
    partition: int = 0


def program(random: Random, length: int = 24) -> list[Step]:
    """Owners take over from each other, and the earlier ones go on trying; now and then something is out of order."""
    steps, open_ = [Step("own")], [False]
    while len(steps) < length:
        newest = len(open_) - 1
        producer = newest if random.random() < 0.8 else random.randrange(newest + 1)
        if random.random() < 0.1:
            what = random.choice(("begin", "send", "offsets", "commit", "abort"))
        elif not open_[producer]:
            what = random.choice(("begin", "begin", "begin", "own"))
        else:
            what = random.choice(("send", "send", "send", "offsets", "commit", "commit", "abort", "own"))
        if what == "own":
            open_.append(False)
        elif what != "send":
            open_[producer] = what in ("begin", "offsets") and (open_[producer] or what == "begin")
        steps.append(Step(what, producer, random.randrange(PARTITIONS)))
    return steps


class Run:
    """A program under way.

    Args:
        make_producer: a producer of the program's transactional id.
        topic: where it writes.
    """

    def __init__(self, make_producer: Callable[[], Any], topic: str, group: Any) -> None:
        self._make, self._topic, self._group = make_producer, topic, group
        self._producers: list[Any] = []
        self.said: list[str] = []

    def take(self, number: int, step: Step) -> None:
        """Take a step, and note whether it was taken."""
        try:
            self.said.append(self._take(number, step))
        except (KafkaException, RuntimeError):
            self.said.append("no")

    def _take(self, number: int, step: Step) -> str:
        if step.what == "own":
            self._producers.append(self._make())
            self._producers[-1].init_transactions(30.0)
            return "yes"
        producer = self._producers[step.producer]
        if step.what == "begin":
            producer.begin_transaction()
        elif step.what == "send":
            failed: list[KafkaError] = []
            producer.produce(
                self._topic,
                b"%d" % number,
                b"key",
                step.partition,
                on_delivery=lambda error, _: failed.append(error) if error is not None else None,
            )
            left = flush(producer, 10.0)
            return "no" if left or failed else "yes"
        elif step.what == "offsets":
            producer.send_offsets_to_transaction([TopicPartition(self._topic, 0, number)], self._group, 10.0)
        elif step.what == "commit":
            producer.commit_transaction(10.0)
        else:
            producer.abort_transaction(10.0)
        return "yes"


def seen(consumer: Any, topic: str) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of all that can be read, and where each partition ends."""
    found: list[tuple[int, int, bytes]] = []
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    ends: dict[int, int] = {}
    while len(ends) < PARTITIONS:
        for message in consumer.consume(100, 1.0):
            if message.error() is None:
                found.append((message.partition(), message.offset(), message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ends[message.partition()] = message.offset()
    consumer.close()
    return sorted([*found, *((partition, end, b"end") for partition, end in ends.items())])


READER = {
    "group.id": "reader",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}


def on_kafka(steps: list[Step], bootstrap_servers: str) -> tuple[list[str], list[tuple[int, int, bytes]]]:
    servers, topic = {"bootstrap.servers": bootstrap_servers}, f"model-{uuid.uuid4().hex[:12]}"
    admin = AdminClient(dict(servers))  # which has to live until it has answered
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    consumer = confluent_kafka.Consumer(servers | READER)
    # A broker that has just started has no coordinator for the group yet, and refuses its offsets for seconds.
    consumer.committed([TopicPartition(topic, 0)], timeout=60.0)
    run = Run(
        lambda: confluent_kafka.Producer(servers | {"transactional.id": topic, "linger.ms": 0}),
        topic,
        consumer.consumer_group_metadata(),
    )
    for number, step in enumerate(steps):
        run.take(number, step)
        time.sleep(0.03)  # until the markers of an end are written, which the model's steps are slow enough for
    return run.said, seen(consumer, topic)


@contextmanager
def model() -> Iterator[tuple[Kernel, Broker]]:
    kernel = Kernel(1)
    broker = Broker(
        lambda: kernel.now, lambda: int(kernel.now * 1000), kernel.after, kernel.random.uniform, lambda _: None
    )
    kernels.use(kernel)
    clients.use(Network(broker))
    try:
        yield kernel, broker
    finally:
        kernel.close()
        kernels.use(None)
        clients.use(None)


def on_model(steps: list[Step]) -> tuple[list[str], list[tuple[int, int, bytes]]]:
    came: list[Any] = []
    with model() as (kernel, broker):
        broker.create("model", PARTITIONS)

        def body() -> None:
            run = Run(lambda: clients.Producer({"transactional.id": "model"}), "model", "reader")
            for number, step in enumerate(steps):
                run.take(number, step)
                kernel.sleep(0.03)
            came.extend((run.said, seen(clients.Consumer(dict(READER)), "model")))

        kernel.spawn(Process("program"), "program", body)
        kernel.run(3600.0)
        if kernel.failure is not None:
            raise kernel.failure
    return came[0], came[1]


@pytest.mark.parametrize("number", range(12))
def test_same_program_comes_to_the_same_on_kafka_and_on_the_model(number: int, bootstrap_servers: str) -> None:
    seed = SystemRandom().randrange(1 << 32) if number else 7
    print(f"seed {seed}")
    steps = program(Random(seed))

    said, found = on_kafka(steps, bootstrap_servers)
    said_by_model, found_by_model = on_model(steps)

    told = list(zip(steps, said, said_by_model, strict=True))
    assert said_by_model == said, "\n".join(map(str, told))
    assert found_by_model == found
