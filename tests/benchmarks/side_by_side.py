"""A job by us and by Kafka Streams, on the same records, measured alike.

Both get a fifth of the records first, so that their JVMs compile, and the clock begins once they have processed them
and the others come, all at one moment. It ends when the offsets of the last record are committed, in the internal topic
too. What came out is compared with what has to come.
"""

from __future__ import annotations

import argparse
import functools
import runpy
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from tests.benchmarks.case import Case, Side
from tests.benchmarks.cluster import broker, cpu_seconds, instance, kept_topic
from tests.benchmarks.figures import Figures, compare
from tests.benchmarks.gate import Gate, committed_all, committed_ends, no_transaction_is_open, partitions_of, publish
from tests.benchmarks.kafka_streams.program import Program
from tests.waiting import wait_until

__all__ = ["SideBySide", "compare_case", "with_options"]

_WARM_UP = 0.2
_SAMPLE = 100_000
_READ = 10_000
_POLL_S = 1.0
_EMPTY_POLLS = 5
_OUTPUTS_S = 60.0


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """Measures both sides of a comparison.

    Args:
        case: the comparison.
        connection: the cluster.
        folder: for state and logs.
        cores: stream threads of theirs, Spark cores of ours.
    """

    case: Case
    connection: KafkaConnection
    folder: Path
    cores: int = 1

    @functools.cached_property
    def _program(self) -> Program:
        """Of Kafka Streams' side, compiled where it is run."""
        classes = self.folder / "classes"
        classes.mkdir()
        return Program.compile(classes)

    def ours(self, run: int, *arguments: str) -> Figures:
        """A new application of ours.

        Args:
            run: its number.
            arguments: of the job's file, besides the application's id.
        """
        name = "-".join(("ours", *arguments, str(run)))
        self.make_topics(name)
        job = runpy.run_path(str(self.case.job))["job_of"](name, *(argument == "combined" for argument in arguments))
        described, _ = create_described_topics(TopicAdmin(self.connection), job.description())
        write_control(self.connection, name, described)
        with instance(
            self.connection, name, self.case.job, self.folder / name, f"local[{self.cores}]", arguments=arguments
        ) as (launched, reader):

            def check() -> None:
                reader.poll(0)
                for status in reader.view.statuses.values():
                    for task in status.tasks:
                        if task.failure is not None:
                            raise RuntimeError(f"task {task.task} failed: {task.failure}")

            return self.measured(name, Side.OURS, lambda: cpu_seconds(launched.launcher_pid), check)

    def theirs(self, run: int, **settings: object) -> Figures:
        """A new application of theirs in one JVM.

        Args:
            run: its number.
            settings: of Kafka Streams, with ``_`` for a point, besides those that say where, exactly-once and the
                number of threads.
        """
        name = f"theirs-{run}-{time.time_ns()}"
        self.make_topics(name)
        given = {
            "source": f"{name}-{self.case.source}",
            "sink": f"{name}-{self.case.sink}",
            **({} if self.case.table is None else {"table": f"{name}-{self.case.table[0]}"}),
            **{setting.replace("_", "."): value for setting, value in settings.items()},
        }
        assert self.case.program is not None
        with self._program.started(
            self.case.program, name, self.connection, self.folder / name, self.cores, given
        ) as jvm:
            return self.measured(name, Side.KAFKA_STREAMS, lambda: {"jvm": jvm.cpu_seconds()}, jvm.check)

    def make_topics(self, name: str) -> None:
        """The plain topics of an application: its source, its sink, and the table's."""
        plain = [self.case.source, self.case.sink, *([] if self.case.table is None else [self.case.table[0]])]
        TopicAdmin(self.connection).ensure([kept_topic(f"{name}-{topic}") for topic in plain])

    def measured(
        self, name: str, side: Side, used: Callable[[], Mapping[str, float]], check: Callable[[], None]
    ) -> Figures:
        """The gate's records, of a side that runs already.

        Args:
            name: of the application.
            side: whose it is.
            used: CPU seconds until now, by what used them.
            check: raises where the side has failed.
        """
        case, connection = self.case, self.connection
        skipped = int(case.records * _WARM_UP)
        source = f"{name}-{case.source}"
        internal = [f"{name}-{case.internal[side]}"] if side in case.internal else []
        if case.table is not None:
            table, batches = case.table
            publish(connection, f"{name}-{table}", batches())
            committed_all(connection, name, [f"{name}-{table}", *internal], check)
        publish(connection, source, case.batches(0, skipped))
        with Gate(connection, source, {source: case.batches(skipped, case.records)}) as gate:
            committed_all(connection, name, [source, *internal], check)
            sample = [_sample(connection, topic) for topic in internal]
            begun, before = time.monotonic(), used()
            gate.open()
            committed_all(connection, name, [source, *internal], check)
            seconds, after = time.monotonic() - begun, used()
        # Flink commits the offsets beside its outputs' transaction, and not in it.
        admin, outputs = AdminClient(dict(connection.to_client_config())), partitions_of(f"{name}-{case.sink}")
        wait_until(lambda: no_transaction_is_open(admin, outputs), _OUTPUTS_S, "the last outputs")
        case.judge(side, read_all(connection, f"{name}-{case.sink}"))
        for topic, size in zip(internal, sample, strict=True):
            number = sum(_ends(connection, topic).values())
            print(f"{name}: {number:,} records in its internal topic, {number * size / 1e6:,.1f} MB of keys and values")
        parts = {kind: after[kind] - before[kind] for kind in after}
        units = case.units(case.records) - case.units(skipped)
        print(f"{name}: us of CPU by " + ", ".join(f"{kind} {used / units * 1e6:.2f}" for kind, used in parts.items()))
        return Figures(units, seconds, sum(parts.values()))


def with_options(parser: argparse.ArgumentParser, arguments: list[str] | None) -> argparse.Namespace:
    """The arguments, with those that all comparisons have."""
    parser.add_argument("--threads", type=int, default=1, help="stream threads of theirs, Spark cores of ours")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="SIDE", help="some of the sides, the first against all"
    )
    return parser.parse_args(arguments)


def compare_case(
    case: Case, sides: Mapping[str, Callable[[SideBySide, int], Figures]], options: argparse.Namespace
) -> None:
    """Measure some sides of a case in turn, on one broker, and print what was measured.

    Args:
        case: the records.
        sides: by name, a run of it, given its number.
        options: as `with_options` made them.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with broker(folder / "kafka") as connection:
            both = SideBySide(case=case, connection=connection, folder=folder, cores=options.threads)
            chosen = {key: sides[key] for key in options.only or sides}
            compare({key: functools.partial(run, both) for key, run in chosen.items()}, options.runs)


def read_all(connection: KafkaConnection, topic: str) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of all committed records of a topic."""
    ends = _ends(connection, topic)
    consumer = _consumer(connection)
    consumer.assign([TopicPartition(topic, number, 0) for number, end in ends.items() if end])
    while any(at.offset < ends[at.partition] for at in consumer.position(consumer.assignment())):
        for message in consumer.consume(_READ, _POLL_S):
            if message.error() is None:
                yield message.key() or b"", message.value() or b""
    consumer.close()


def _sample(connection: KafkaConnection, topic: str) -> float:
    """Bytes of a record's key and value, by some of them."""
    consumer = _consumer(connection)
    consumer.assign([TopicPartition(topic, number, 0) for number, end in _ends(connection, topic).items() if end])
    sizes, empty = list[int](), 0
    while len(sizes) < _SAMPLE and empty < _EMPTY_POLLS:
        records = [message for message in consumer.consume(_READ, _POLL_S) if message.error() is None]
        sizes += [len(record.key() or b"") + len(record.value() or b"") for record in records]
        empty = 0 if records else empty + 1
    consumer.close()
    return sum(sizes) / max(len(sizes), 1)


def _consumer(connection: KafkaConnection) -> Consumer:
    return Consumer(
        connection.to_client_config()
        | {"group.id": "figures", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    )


def _ends(connection: KafkaConnection, topic: str) -> dict[int, int]:
    """By partition, where its committed records end."""
    return committed_ends(AdminClient(dict(connection.to_client_config())), partitions_of(topic))
