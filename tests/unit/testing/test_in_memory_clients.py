"""What the worker relies on in Kafka, of the topics in memory."""

from __future__ import annotations

import pytest

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.errors import FencedError
from airflow_provider.testing.in_memory_clients import (
    InMemoryGroup,
    InMemoryLog,
    InMemoryReader,
    InMemoryWriter,
    partition_of,
)
from tests.builders import commit_of

CHANGELOG = ("app-state-changelog", 0)
GROUP = InMemoryGroup()


def record() -> CommitRecord:
    return commit_of()


def commit(writer: InMemoryWriter, *keys: bytes) -> int:
    topic = CHANGELOG[0]
    outputs = {"out": [(key, b"o") for key in keys]}
    return writer.commit({topic: [(key, b"v") for key in keys]}, outputs, record(), GROUP)[topic]


@pytest.fixture
def log() -> InMemoryLog:
    return InMemoryLog()


@pytest.fixture
def writer(log: InMemoryLog) -> InMemoryWriter:
    writer = InMemoryWriter(log, "app-0")
    writer.fence()
    return writer


def test_commit_tells_the_offset_before_its_marker(log: InMemoryLog, writer: InMemoryWriter) -> None:
    assert commit(writer, b"a", b"b") == 3
    assert log.end(*CHANGELOG) == 4
    assert commit(writer, b"c") == 6


def test_later_owner_fences_and_what_a_fenced_one_writes_is_in_no_topic(
    log: InMemoryLog, writer: InMemoryWriter
) -> None:
    later = InMemoryWriter(log, "app-0")
    later.fence()

    with pytest.raises(FencedError, match="taken over by a newer owner"):
        commit(writer, b"a")

    assert (log.end(*CHANGELOG), log.end("out", 0)) == (0, 0)
    assert commit(later, b"a") == 2


def test_writer_that_did_not_fence_cannot_write(log: InMemoryLog) -> None:
    with pytest.raises(FencedError):
        commit(InMemoryWriter(log, "app-0"), b"a")


def test_reader_passes_over_markers_and_parts_commits_from_changes(log: InMemoryLog, writer: InMemoryWriter) -> None:
    commit(writer, b"a", b"b")
    commit(writer, b"c")
    reader = InMemoryReader(log)
    reader.add(CHANGELOG, 1)

    batch = reader.read(100, 0.0)[CHANGELOG]

    assert (batch.keys, batch.commit, batch.records) == ([b"b", b"c"], record().to_bytes(), 4)
    assert (batch.next_offset, batch.at_end) == (7, True)
    assert reader.bounds(CHANGELOG) == (0, 7)
    assert reader.read(100, 0.0)[CHANGELOG].records == 0


def test_reader_takes_no_more_than_it_may(log: InMemoryLog, writer: InMemoryWriter) -> None:
    commit(writer, b"a", b"b")
    reader = InMemoryReader(log)
    reader.add(CHANGELOG, 0)

    batches = [reader.read(1, 0.0)[CHANGELOG] for _ in range(3)]

    assert [(batch.keys, batch.next_offset, batch.at_end) for batch in batches] == [
        ([b"a"], 1, False),
        ([b"b"], 2, False),
        ([], 4, True),
    ]


def test_partition_that_was_removed_is_read_no_more(log: InMemoryLog, writer: InMemoryWriter) -> None:
    reader = InMemoryReader(log)
    reader.add(CHANGELOG, 0)
    reader.remove(CHANGELOG)
    commit(writer, b"a")

    assert list(reader.assigned) == []
    assert reader.read(100, 0.0) == {}


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        # What Kafka's Java clients compute.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
@pytest.mark.parametrize("partitions", [2, 7, 2**31])
def test_partition_is_the_one_that_java_clients_choose(key: bytes, hashed: int, partitions: int) -> None:
    assert partition_of(key, partitions) == (hashed & 0x7FFFFFFF) % partitions


def test_record_without_a_key_goes_to_the_first_partition() -> None:
    assert partition_of(None, 5) == 0
