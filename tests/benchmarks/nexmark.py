"""Records a second and core of each query of Nexmark, exactly-once, on a real instance.

A query has a broker, topics and an instance of its own. It gets a fifth of the events first, so that its JVM compiles;
the CPU that the others cost is measured, of all processes of the instance. The records are those of the topics that
the query reads.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.records.job_description import TopicKind
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.benchmarks.case import PARTITIONS, Record, slices
from tests.benchmarks.cluster import broker, cpu_seconds, instance
from tests.benchmarks.figures import Figures
from tests.benchmarks.gate import committed_all, publish
from tests.nexmark.generator import Event, Model
from tests.nexmark.queries import QUERIES

_WARM_UP = 0.2
JOB = Path(__file__).with_name("nexmark_job.py")


def measure(query: str, events: Sequence[Event], connection: KafkaConnection, folder: Path) -> Figures:
    """All events but the first fifth, by a new application."""
    job = QUERIES[query]().description()
    admin, sources = TopicAdmin(connection), job.names(TopicKind.SOURCE)
    admin.ensure([TopicSpec(name=name, partitions=PARTITIONS, config={"retention.ms": "-1"}) for name in sources])
    described, _ = create_described_topics(admin, job)
    write_control(connection, query, described)
    topics = [*sources, *job.names(TopicKind.REPARTITION)]
    read = [event for event in events if event.topic in sources]
    skipped = int(len(read) * _WARM_UP)
    _publish(connection, read[:skipped])
    with instance(connection, query, JOB, folder, "local[1]") as (launched, _):
        committed_all(connection, query, topics)
        begun, before = time.monotonic(), cpu_seconds(launched.launcher_pid)
        _publish(connection, read[skipped:])
        committed_all(connection, query, topics)
        used = {kind: seconds - before[kind] for kind, seconds in cpu_seconds(launched.launcher_pid).items()}
        return Figures(len(read) - skipped, time.monotonic() - begun, sum(used.values()))


def side_input() -> list[Event]:
    """A row for each key that an auction may have in q13."""
    return [Event("side_input", str(key), {"key": key, "value": str(key)}, 0) for key in range(10_000)]


def _publish(connection: KafkaConnection, events: Sequence[Event]) -> None:
    for topic in Counter(event.topic for event in events):
        publish(connection, topic, _batches([event for event in events if event.topic == topic]))


def _batches(events: Sequence[Event]) -> Iterator[Sequence[Record]]:
    for part in slices(0, len(events)):
        yield [{"key": event.key, "value": msgspec.json.encode(event.value)} for event in events[part]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", nargs="*", metavar="QUERY", help="some of them, such as q5; default all")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time")
    arguments = parser.parse_args()
    events = [*side_input(), *Model(events=arguments.events, seed=1, rate=arguments.rate).stream()]
    for query in arguments.queries or QUERIES:
        with tempfile.TemporaryDirectory() as name, broker(Path(name) / "kafka") as connection:
            print(f"{query:4} {measure(query, events, connection, Path(name))}", flush=True)


if __name__ == "__main__":
    main()
