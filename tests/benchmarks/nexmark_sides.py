"""A query of Nexmark by us and by Kafka Streams, on the same events, measured alike.

Each has a broker and topics of its own. The events come in parts. One comes all at a moment, when all before it are
processed, and is measured from there until the offsets of its last record are committed, in the internal topics too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import psutil

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.records.job_description import JobDescription, TopicKind
from airflow_provider.control.topics.commits import CommitTopics, last_commits
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from tests.benchmarks.case import Record, slices
from tests.benchmarks.cluster import cpu_seconds, instance, kept_topic, kind_of
from tests.benchmarks.figures import Figures
from tests.benchmarks.gate import Gate, committed_all, publish
from tests.benchmarks.kafka_streams.program import Program
from tests.nexmark import job as job_file
from tests.nexmark.generator import Event, Model, side_input

__all__ = ["SIDE_INPUT", "THEIRS", "Running", "measured", "ours", "parts_of", "sources_of", "theirs"]

THEIRS: Final = tuple(f"q{number}" for number in (0, 1, 2, 3, 5, 7, 8, 11, 13, 14, 17, 18, 19, 20, 21, 22))
"""What Kafka Streams' side answers: it has no sets for distinct counts, and no join by another time than the rows'."""
SIDE_INPUT: Final = side_input(range(10_000))
"""A row for each key that an auction may have in q13."""

_STREAMS: Final = ("persons", "auctions", "bids")
_TICK_S: Final = 0.2
_TIMEOUT_S: Final = 1800.0


@dataclass(frozen=True, kw_only=True)
class Running:
    """A side that runs.

    Args:
        connection: the cluster.
        sources: the topics that the query reads, but for the side input, which is there already.
        sink: where its results are.
        used: CPU seconds of all its processes until now.
        processed: waits until it has committed all that is in its topics.
        pid: whose descendants its processes are, or which itself is the only one.
        state: the folder of its stores.
        corrects: whether it puts a result out more than once, of which the last counts.
    """

    connection: KafkaConnection
    sources: tuple[str, ...]
    sink: str
    used: Callable[[], float]
    processed: Callable[[], None]
    pid: int
    state: Path
    corrects: bool = False

    def resident_bytes(self) -> Counter[str]:
        """Memory of its processes now, by what they are."""
        found = Counter[str]()
        for process in (psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                found[kind_of(process)] += process.memory_info().rss
        return found


def parts_of(model: Model, ends: Iterable[int]) -> Iterator[list[Event]]:
    """The events of a model in parts, made when they are asked for.

    Each part is drawn by itself, so their sizes are a part of what the events are.

    Args:
        model: its own number of events says nothing.
        ends: of each part, how many events there are up to its end.
    """
    for begin, end in itertools.pairwise((0, *ends)):
        yield dataclasses.replace(model, events=end - begin, first=begin, seed=model.seed + begin).stream()


def sources_of(job: JobDescription) -> tuple[str, ...]:
    """The streams that a query reads."""
    return tuple(name for name in _STREAMS if name in job.names(TopicKind.SOURCE))


def measured(side: Running, parts: Iterable[Sequence[Event]], name: str = "part") -> Iterator[Figures]:
    """The events part by part; what each has cost. `name` is that of the parts, another one each time."""
    for number, events in enumerate(parts):
        records = {topic: [event for event in events if event.topic == topic] for topic in side.sources}
        batches = {topic: _batches(of_topic) for topic, of_topic in records.items()}
        with Gate(side.connection, f"{name}-{number}", batches) as gate:
            begun, before = time.monotonic(), side.used()
            gate.open()
            side.processed()
            seconds, used = time.monotonic() - begun, side.used() - before
        yield Figures(sum(map(len, records.values())), seconds, used)


@contextlib.contextmanager
def ours(
    query: str, connection: KafkaConnection, folder: Path, cores: int = 1, options: Sequence[str] = ()
) -> Iterator[Running]:
    """An instance of ours.

    Args:
        query: which.
        connection: a cluster of its own.
        folder: for its state and logs.
        cores: of Spark.
        options: of the job's file.
    """
    admin, described = TopicAdmin(connection), job_file.job_of(query).description()
    sources = _make_sources(connection, described)
    described, _ = create_described_topics(admin, described)
    write_control(connection, query, described)
    topics = [*described.names(TopicKind.SOURCE), *described.names(TopicKind.REPARTITION)]

    def processed() -> None:
        committed_all(connection, query, topics)
        # Where two stages read a topic, what the group has committed is the offset of one of them.
        deadline = time.monotonic() + _TIMEOUT_S
        while not _all_tasks_done(connection, described):
            if time.monotonic() > deadline:
                raise RuntimeError(f"not all tasks of {query} have processed all within {_TIMEOUT_S:g} s")
            time.sleep(_TICK_S)

    with instance(connection, query, Path(job_file.__file__ or ""), folder, f"local[{cores}]", arguments=options) as (
        launched,
        _,
    ):
        yield Running(
            connection=connection,
            sources=sources,
            sink=query,
            used=lambda: sum(cpu_seconds(launched.launcher_pid).values()),
            processed=processed,
            pid=launched.launcher_pid,
            state=folder / "state",
        )


@contextlib.contextmanager
def theirs(
    query: str, connection: KafkaConnection, folder: Path, program: Program, cores: int = 1
) -> Iterator[Running]:
    """A JVM with Kafka Streams; the arguments are those of `ours`.

    Args:
        program: the compiled Java program.
        cores: its stream threads.
    """
    described, application = job_file.job_of(query).description(), f"theirs-{query}"
    sources = _make_sources(connection, described)
    TopicAdmin(connection).ensure([kept_topic(query)])
    given = {
        "query": query,
        "sink": query,
        **{topic: topic for topic in described.names(TopicKind.SOURCE)},
    }
    with program.started("Nexmark", application, connection, folder / "state", cores, given) as jvm:

        def processed() -> None:
            committed_all(connection, application, sources, jvm.check)
            names = TopicAdmin(connection).names()
            internal = sorted(name for name in names if name.startswith(application) and name.endswith("-repartition"))
            committed_all(connection, application, internal, jvm.check)

        yield Running(
            connection=connection,
            sources=sources,
            sink=query,
            used=jvm.cpu_seconds,
            processed=processed,
            pid=jvm.process.pid,
            state=folder / "state",
            corrects=query == "q8",
        )


def _make_sources(connection: KafkaConnection, job: JobDescription) -> tuple[str, ...]:
    """The topics that a query reads, and the rows of the side input."""
    names = job.names(TopicKind.SOURCE)
    TopicAdmin(connection).ensure([kept_topic(name) for name in names])
    if SIDE_INPUT[0].topic in names:
        publish(connection, SIDE_INPUT[0].topic, _batches(SIDE_INPUT))
    return sources_of(job)


def _all_tasks_done(connection: KafkaConnection, job: JobDescription) -> bool:
    """Whether each task's last commit is at the end of its source; the stages upstream are looked at first."""
    admin, topics = TopicAdmin(connection), _commit_topics(job)
    for stage in job.stages:
        tasks = [TaskId(stage.number, partition) for partition in range(stage.partitions or 0)]
        numbers = range(len(tasks))
        ends = admin.latest_offsets(stage.source, numbers, committed=True)
        own = admin.latest_offsets(topics.by_stage[stage.number], numbers, committed=True)
        commits = last_commits(connection, job.application_id, topics, {task: own[task.partition] for task in tasks})
        for task, commit in commits.items():
            at = 0 if commit is None or stage.source not in commit.sources else commit.sources[stage.source].offset
            # What ends a transaction takes an offset, too.
            if ends[task.partition] and at < ends[task.partition] - 1:
                return False
    return True


def _commit_topics(job: JobDescription) -> CommitTopics:
    kinds = (TopicKind.CHANGELOG, TopicKind.COMMITS)
    return CommitTopics({topic.stage: topic.name for topic in job.topics if topic.kind in kinds})


def _batches(events: Sequence[Event]) -> Iterator[Sequence[Record]]:
    for part in slices(0, len(events)):
        yield [{"key": event.key, "value": msgspec.json.encode(event.value)} for event in events[part]]
