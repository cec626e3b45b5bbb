"""End-to-end latency at a steady rate: from the producer's call to the committed output in a consumer's hands.

Each order carries the time at which it was produced; the output of its key carries the newest one. So an order is
counted with the output that it caused; of several orders of one customer in one micro-batch only the newest is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import MutableSequence, Sequence
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks.active_step import TASKS
from tests.benchmarks.cluster import broker, instance, make_topics
from tests.benchmarks.orders import SINK, SOURCE

_TICK_S = 0.01


def produce(
    connection: KafkaConnection,
    rate: int,
    seconds: float,
    customers: int,
    ended: threading.Event,
    topics: Sequence[str] = (SOURCE,),
) -> None:
    """Orders at a steady rate to each of these topics, a hundred ticks a second.

    Idempotent, as a Java producer is: at most five requests under way. A client with no such bound asks a broker that
    is behind with ever more requests of an order each.
    """
    settings = {"linger.ms": 5, "queue.buffering.max.messages": 1_000_000, "enable.idempotence": True}
    producer = Producer(connection.to_client_config() | settings)
    random = np.random.default_rng(3)
    begun, sent = time.monotonic(), 0
    while (elapsed := time.monotonic() - begun) < seconds:
        keys = [f"customer-{customer:08d}" for customer in random.integers(0, customers, int(elapsed * rate) - sent)]
        at = time.time_ns() // 1_000
        orders = [{"key": key, "value": f'{{"customer":"{key}","at":{at}}}'} for key in keys]
        for topic in topics:
            producer.produce_batch(topic, orders)
        sent += len(keys)
        producer.poll(0)
        time.sleep(_TICK_S)
    producer.flush(10)
    ended.set()


def collect(
    connection: KafkaConnection,
    ended: threading.Event,
    found: MutableSequence[float],
    topics: Sequence[str] = (SINK,),
) -> None:
    """Add the seconds of each output in these topics, until none has come for a while after the last order."""
    consumer = Consumer(
        connection.to_client_config()
        | {"group.id": "latency", "isolation.level": "read_committed", "fetch.wait.max.ms": 5}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for topic in topics for partition in range(TASKS)])
    quiet_since = time.monotonic()
    while not ended.is_set() or time.monotonic() - quiet_since < 3.0:
        for message in consumer.consume(10_000, 0.01):
            value = message.value()
            if message.error() is None and value is not None:
                found.append(time.time() - json.loads(value)["at"] / 1e6)
                quiet_since = time.monotonic()
    consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=2_000, help="orders a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=15.0, help="seconds left out: the JVM compiles")
    parser.add_argument("--customers", type=int, default=200_000)
    parser.add_argument("--cores", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with broker(folder / "kafka") as connection:
            make_topics(connection, "latency", TASKS, SOURCE, SINK)
            job = Path(__file__).with_name("latency_job.py")
            with instance(connection, "latency", job, folder, f"local[{options.cores}]"):
                ended = threading.Event()
                total = options.warm_up + options.seconds
                arguments = (connection, options.rate, total, options.customers, ended)
                threading.Thread(target=produce, args=arguments, daemon=True).start()
                found = list[float]()
                collect(connection, ended, found)
    # Outputs come in the order of time, so the share of time is the share of outputs.
    counted = np.array(found[int(len(found) * options.warm_up / total) :])
    p50, p90, p99 = np.percentile(counted, [50, 90, 99])
    print(
        f"{options.rate:,} orders/s, {len(counted):,} outputs: p50 {p50:.3f} s, p90 {p90:.3f} s, p99 {p99:.3f} s, "
        f"longest {counted.max():.3f} s"
    )


if __name__ == "__main__":
    main()
