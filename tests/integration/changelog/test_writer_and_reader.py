"""What the transactional writer and the changelog reader promise, as a real broker keeps it."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import COMMIT_KEY, CommitRecord, SourcePosition
from airflow_provider.changelog.producer_queue import Change
from airflow_provider.changelog.reader import ChangelogPartition, ChangelogReader
from airflow_provider.changelog.writer import TransactionalWriter
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import (
    BrokerUnreachableError,
    ConfigurationError,
    FencedError,
    StoreOutdatedError,
    TopicMissingError,
)
from airflow_provider.failpoint import FailPoint, FailPoints
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import changelog_topic, commits_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec, commits_spec
from airflow_provider.kit.ports import free_ports
from tests.builders import commit_of
from tests.integration.streaming.committed import group_offset, records_of, wait_for_markers
from tests.waiting import wait_until


@dataclasses.dataclass(frozen=True)
class Topics:
    """Of one test: a changelog and a source of two partitions, a sink of three."""

    bootstrap_servers: str
    application_id: str

    @property
    def changelog(self) -> str:
        return f"{self.application_id}-state-changelog"

    @property
    def source(self) -> str:
        return f"{self.application_id}-source"

    @property
    def sink(self) -> str:
        return f"{self.application_id}-sink"

    @property
    def connection(self) -> KafkaConnection:
        return KafkaConnection(self.bootstrap_servers)

    def writer(self, task: int = 0, failpoints: FailPoints | None = None) -> TransactionalWriter:
        return TransactionalWriter(self.connection, f"{self.application_id}-{task}", self.changelog, failpoints)

    def commit_record(self, source_offset: int, task: int = 0) -> CommitRecord:
        return commit_of(
            application_id=self.application_id,
            task=TaskId(0, task),
            sources={self.source: SourcePosition(source_offset)},
        )

    def committed(self, topic: str, settled: bool = True) -> list[tuple[bytes, bytes | None]]:
        return [(record.key, record.value) for record in records_of(self.bootstrap_servers, topic, settled)]


@pytest.fixture
def topics(bootstrap_servers: str, application_id: str) -> Topics:
    topics = Topics(bootstrap_servers, application_id)
    specs = [
        changelog_spec(application_id, "state", 2),
        changelog_spec(application_id, "seen", 2),
        commits_spec(application_id, 1, 2),
        TopicSpec(name=topics.source, partitions=2),
        TopicSpec(name=topics.sink, partitions=3),
    ]
    TopicAdmin(topics.connection).ensure(specs)
    return topics


@pytest.fixture
def group(topics: Topics) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": topics.bootstrap_servers, "group.id": topics.application_id})
    yield consumer
    consumer.close()


@pytest.fixture
def reader(topics: Topics) -> Iterator[ChangelogReader]:
    reader = ChangelogReader(topics.connection, topics.application_id)
    yield reader
    reader.close()


def read_to_end(reader: ChangelogReader, source: ChangelogPartition) -> ChangelogBatch:
    """All that one partition holds."""
    whole = ChangelogBatch()

    def read() -> bool:
        for found, batch in reader.read(10_000, 0.05).items():
            assert found == source
            if batch.error is not None:
                raise batch.error
            whole.keys += batch.keys
            whole.values += batch.values
            whole.commit = batch.commit or whole.commit
            whole.records += batch.records
            whole.next_offset, whole.at_end = batch.next_offset, batch.at_end
        return whole.at_end

    wait_until(read, 30, f"the end of {source}")
    return whole


def commit(
    topics: Topics,
    writer: TransactionalWriter,
    group: Consumer,
    changes: list[Change],
    outputs: Mapping[str, list[Change]] | None = None,
    source_offset: int = 1,
    task: int = 0,
) -> int:
    record = topics.commit_record(source_offset, task)
    return writer.commit({topics.changelog: changes}, outputs or {}, record, group)[topics.changelog]


def test_output_goes_to_the_partitions_that_are_named(topics: Topics, group: Consumer) -> None:
    with closing(topics.writer()) as writer:
        writer.fence()
        record = topics.commit_record(1)
        outputs = {topics.sink: [(b"a", b"1"), (b"b", None)]}
        writer.commit({topics.changelog: []}, outputs, record, group, output_partitions=range(3))
        writer.commit({topics.changelog: []}, {topics.sink: [(b"c", b"2")]}, record, group, output_partitions=(1,))

    wait_until(lambda: len(topics.committed(topics.sink)) == 7, 30, "all of it")
    by_partition: dict[int, list[bytes]] = {}
    for found in records_of(topics.bootstrap_servers, topics.sink):
        by_partition.setdefault(found.partition, []).append(found.key)
    assert by_partition == {0: [b"a", b"b"], 1: [b"a", b"b", b"c"], 2: [b"a", b"b"]}


def test_commit_stores_changes_output_record_and_offsets_together(topics: Topics, group: Consumer) -> None:
    writer = topics.writer(1)
    writer.fence()
    output: list[Change] = [(f"k{n}".encode(), b"v") for n in range(20)]

    position = commit(topics, writer, group, [(b"a", b"1"), (b"gone", None)], {topics.sink: output}, 42, task=1)

    changelog = records_of(topics.bootstrap_servers, topics.changelog)
    assert [(r.partition, r.key, r.value) for r in changelog[:2]] == [(1, b"a", b"1"), (1, b"gone", None)]
    assert (changelog[2].partition, changelog[2].key, len(changelog)) == (1, COMMIT_KEY, 3)
    assert json.loads(changelog[2].value or b"")["sources"] == {topics.source: {"offset": 42, "topic_id": None}}
    assert position == changelog[2].offset + 1
    assert sorted(topics.committed(topics.sink)) == sorted(output)
    assert group_offset(topics.bootstrap_servers, topics.application_id, topics.source, 1) == 42
    assert group_offset(topics.bootstrap_servers, topics.application_id, topics.source, 0) < 0


def test_commit_of_several_changelogs_is_one_and_its_record_the_last_in_each(topics: Topics, group: Consumer) -> None:
    seen, sources = changelog_topic(topics.application_id, "seen"), {topics.source: SourcePosition(42)}
    writer = topics.writer(1)
    writer.fence()
    record = dataclasses.replace(topics.commit_record(1, task=1), sources={**sources, topics.sink: SourcePosition(7)})
    changes: dict[str, list[Change]] = {topics.changelog: [(b"a", b"1"), (b"b", b"1")], seen: [(b"a", b"2")]}

    positions = writer.commit(changes, {}, record, group)

    for topic, pairs in changes.items():
        found = records_of(topics.bootstrap_servers, topic)
        assert [(r.partition, r.key, r.value) for r in found] == [
            *((1, key, value) for key, value in pairs),
            (1, COMMIT_KEY, record.to_bytes()),
        ]
        assert positions[topic] == found[-1].offset + 1
    assert positions.keys() == changes.keys()
    for topic, offset in ((topics.source, 42), (topics.sink, 7)):
        assert group_offset(topics.bootstrap_servers, topics.application_id, topic, 1) == offset


def test_task_without_a_store_keeps_its_record_in_its_stages_topic(topics: Topics, group: Consumer) -> None:
    commits, writer = commits_topic(topics.application_id, 1), topics.writer()
    record = dataclasses.replace(topics.commit_record(42), task=TaskId(1, 0))
    writer.fence()

    positions = writer.commit({commits: []}, {topics.sink: [(b"k", b"v")]}, record, group)

    assert topics.committed(commits) == [(COMMIT_KEY, record.to_bytes())]
    assert positions == {commits: 1}
    assert topics.committed(topics.sink) == [(b"k", b"v")]


def test_output_lands_where_a_java_producer_would_put_it(topics: Topics, group: Consumer) -> None:
    keys = [b"N%05d" % n for n in range(60)]
    writer = topics.writer()
    writer.fence()
    commit(topics, writer, group, [], {topics.sink: [(key, b"ours") for key in keys]})
    java = Producer({"bootstrap.servers": topics.bootstrap_servers, "partitioner": "murmur2"})
    for key in keys:
        java.produce(topics.sink, b"theirs", key)
    assert java.flush(30) == 0

    found = records_of(topics.bootstrap_servers, topics.sink)

    placed = {value: {r.key: r.partition for r in found if r.value == value} for value in (b"ours", b"theirs")}
    assert placed[b"ours"] == placed[b"theirs"]


def test_nothing_is_seen_of_what_was_not_committed(topics: Topics, group: Consumer) -> None:
    class StopError(Exception):
        """In the place of a death, so that the producer lives on."""

    class Stop:
        def hit(self, name: str) -> None:
            if name == "commit.offsets":
                raise StopError

    writer = TransactionalWriter(topics.connection, f"{topics.application_id}-0", topics.changelog, Stop())  # type: ignore[arg-type]
    writer.fence()
    with pytest.raises(StopError):
        commit(topics, writer, group, [(b"a", b"1")], {topics.sink: [(b"a", b"1")]}, 42)

    for topic in (topics.changelog, topics.sink):
        assert topics.committed(topic, settled=False) == []

    # The next owner aborts it, so that readers get past at once.
    heir = topics.writer()
    heir.fence()
    assert group_offset(topics.bootstrap_servers, topics.application_id, topics.source, 0) < 0
    commit(topics, heir, group, [(b"a", b"2")])
    assert topics.committed(topics.changelog)[0] == (b"a", b"2")
    assert topics.committed(topics.sink) == []


def test_fenced_writer_writes_nothing(topics: Topics, group: Consumer) -> None:
    old, new = topics.writer(), topics.writer()
    old.fence()
    commit(topics, old, group, [(b"a", b"old")], source_offset=1)
    new.fence()
    commit(topics, new, group, [(b"a", b"new")], source_offset=2)

    for _ in range(2):
        with pytest.raises(FencedError, match="taken over by a newer owner"):
            commit(topics, old, group, [(b"a", b"zombie")], {topics.sink: [(b"a", b"zombie")]}, source_offset=3)

    commit(topics, new, group, [(b"b", b"new")], source_offset=4)
    assert [v for k, v in topics.committed(topics.changelog) if k != COMMIT_KEY] == [b"old", b"new", b"new"]
    assert topics.committed(topics.sink) == []
    assert group_offset(topics.bootstrap_servers, topics.application_id, topics.source, 0) == 4


def test_writer_that_learns_of_its_successor_between_two_records_says_so(topics: Topics, group: Consumer) -> None:
    class Learning(FailPoints):
        def hit(self, point: FailPoint) -> None:
            if point is FailPoint.COMMIT_CHANGES:  # the client says once why it gave up, and then only that it did
                with pytest.raises(KafkaException, match="fenced"):
                    old._producer.client.flush(30)  # noqa: SLF001

    new = topics.writer()
    old = topics.writer(failpoints=Learning())
    old.fence()
    new.fence()

    with pytest.raises(FencedError, match="taken over by a newer owner"):
        commit(topics, old, group, [(b"a", b"zombie")], {topics.sink: [(b"a", b"zombie")]}, source_offset=1)

    assert not topics.committed(topics.changelog)


@pytest.mark.parametrize("noticed", [FailPoint.COMMIT_OUTPUTS, FailPoint.COMMIT_RECORD])
def test_record_that_the_brokers_refuse_is_the_reason_whatever_notices_it(
    noticed: FailPoint, topics: Topics, group: Consumer
) -> None:
    class Noticing(FailPoints):
        def hit(self, point: FailPoint) -> None:
            if point is noticed:  # from here on the client says that something failed, and not what
                writer._producer.client.flush(30)  # noqa: SLF001

    small = f"{topics.application_id}-small"
    spec = TopicSpec(
        name=small, partitions=1, config={"max.message.bytes": "50000", "compression.type": "uncompressed"}
    )
    TopicAdmin(topics.connection).ensure([spec])
    writer = topics.writer(failpoints=Noticing())
    writer.fence()

    with pytest.raises(ConfigurationError, match=r"too large .* max.message.bytes"):
        commit(topics, writer, group, [(b"a", b"1")], {small: [(b"a", b"." * 60_000)]})

    assert not topics.committed(topics.changelog)


def test_owners_of_different_tasks_do_not_fence_each_other(topics: Topics, group: Consumer) -> None:
    writers = [topics.writer(task) for task in (0, 1)]
    for writer in writers:
        writer.fence()
    for task in (0, 1, 0, 1):
        commit(topics, writers[task], group, [(b"%d" % task, b"1")], task=task)

    changes = [r for r in records_of(topics.bootstrap_servers, topics.changelog) if r.key != COMMIT_KEY]
    assert sorted((r.partition, r.key) for r in changes) == [(0, b"0"), (0, b"0"), (1, b"1"), (1, b"1")]


def test_transaction_of_more_records_than_one_chunk_is_still_one(topics: Topics, group: Consumer) -> None:
    writer = topics.writer()
    writer.fence()
    changes: list[Change] = [(b"%06d" % n, b"v") for n in range(60_000)]

    position = commit(topics, writer, group, changes)

    found = records_of(topics.bootstrap_servers, topics.changelog)
    assert [record.key for record in found] == [key for key, _ in changes] + [COMMIT_KEY]
    assert position == found[-1].offset + 1


def test_reader_gets_committed_records_their_end_and_later_ones(
    topics: Topics, group: Consumer, reader: ChangelogReader
) -> None:
    source = (topics.changelog, 0)
    writer = topics.writer()
    writer.fence()
    commit(topics, writer, group, [(b"a", b"1"), (b"b", b"1"), (b"a", None)])
    wait_for_markers(topics.bootstrap_servers, topics.changelog)
    reader.add(source, 0)

    first = read_to_end(reader, source)
    commit(topics, writer, group, [(b"c", b"1")])
    second: set[bytes] = set()

    def read() -> bool:
        second.update(*(batch.keys for batch in reader.read(100, 0.05).values()))
        return b"c" in second

    wait_until(read, 30, "what came later")

    newest = dict(zip(first.keys, first.values, strict=True))
    assert (newest[b"a"], newest[b"b"], first.records) == (None, b"1", 4)
    assert first.next_offset == 5, "the end lies behind the transaction's marker"
    assert b"a" not in second


def test_reader_begins_where_it_is_asked_to_and_forgets_what_is_removed(
    topics: Topics, group: Consumer, reader: ChangelogReader
) -> None:
    writer = topics.writer()
    writer.fence()
    commit(topics, writer, group, [(b"%d" % n, b"1") for n in range(10)])
    wait_for_markers(topics.bootstrap_servers, topics.changelog)
    source = (topics.changelog, 0)
    reader.add(source, 7)
    reader.add(source, 8)

    found = read_to_end(reader, source)
    assert (found.keys, found.records) == ([b"8", b"9"], 3)
    assert found.commit
    reader.remove(source)
    reader.remove(source)
    commit(topics, writer, group, [(b"later", b"1")])
    assert reader.read(100, 0.3) == {}


def test_offset_that_the_log_has_no_more_is_reported(topics: Topics, bootstrap_servers: str) -> None:
    cut = dataclasses.replace(topics, application_id=f"{topics.application_id}-cut")
    spec = changelog_spec(cut.application_id, "state", 1)
    spec = dataclasses.replace(spec, config={**spec.config, "cleanup.policy": "compact,delete"})
    TopicAdmin(cut.connection).ensure([spec])
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(10):
        producer.produce(cut.changelog, b"v", b"%d" % number)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    (done,) = admin.delete_records([TopicPartition(cut.changelog, 0, 5)]).values()
    done.result(30)

    with closing(ChangelogReader(cut.connection, cut.application_id)) as reader:
        source = (cut.changelog, 0)
        assert reader.bounds(source) == (5, 10)
        for offset in (2, 11):
            reader.add(source, offset)
            with pytest.raises(StoreOutdatedError, match="not in the log any more"):
                read_to_end(reader, source)


def test_position_past_a_marker_that_is_on_its_way_lies_within_the_log(
    topics: Topics, reader: ChangelogReader, bootstrap_servers: str
) -> None:
    # A commit returns before its marker is written; an open transaction looks the same, and longer.
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topics.application_id})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topics.changelog, b"v", b"k", partition=0)
    assert producer.flush(30) == 0
    source = (topics.changelog, 0)

    assert reader.bounds(source) == (0, 0)
    assert reader.bounds(source, position=1) == (0, 1)
    assert reader.bounds(source, position=7) == (0, 1)
    producer.abort_transaction(30)


def test_missing_changelog_is_reported(topics: Topics, reader: ChangelogReader) -> None:
    for source in (("no-such-changelog", 0), (topics.changelog, 7)):
        with pytest.raises(TopicMissingError, match="CreateChangelogTopicsOperator"):
            reader.bounds(source)


@pytest.fixture
def unreachable() -> KafkaConnection:
    return KafkaConnection(f"127.0.0.1:{free_ports(1)[0]}")


def test_unreachable_broker_is_reported_within_the_deadline(unreachable: KafkaConnection) -> None:
    began = time.monotonic()
    with pytest.raises(BrokerUnreachableError, match="check that the brokers answer"):
        TransactionalWriter(unreachable, "app-0", "sink", timeout_s=0.5).fence()
    reader = ChangelogReader(unreachable, "app")
    with pytest.raises(BrokerUnreachableError, match="check that the brokers answer"):
        reader.bounds(("app-state-changelog", 0), timeout_s=0.5)
    reader.close()
    assert time.monotonic() - began < 10


def test_owner_has_the_brokers_delete_what_a_changelog_of_windows_begins_with(
    topics: Topics, reader: ChangelogReader, group: Consumer
) -> None:
    windowed = changelog_spec(topics.application_id, "windows", 2, windowed=True)
    TopicAdmin(topics.connection).ensure([windowed])
    writer = topics.writer()
    writer.fence()
    for number in range(3):
        key = f"{number}".encode()
        end = writer.commit({windowed.name: [(key, b"1")]}, {}, topics.commit_record(number), group)[windowed.name]
    begin = end - 2

    writer.delete_before(windowed.name, 0, begin)

    wait_until(lambda: reader.bounds((windowed.name, 0))[0] == begin, 30, "the deletion")
    reader.add((windowed.name, 0), begin)
    assert read_to_end(reader, (windowed.name, 0)).keys == [b"2"]
    writer.close()


def test_changelog_that_must_keep_all_is_not_cut(
    topics: Topics, reader: ChangelogReader, group: Consumer, caplog: pytest.LogCaptureFixture
) -> None:
    writer = topics.writer()
    writer.fence()
    writer.commit({topics.changelog: [(b"a", b"1")]}, {}, topics.commit_record(1), group)

    writer.delete_before(topics.changelog, 0, 1)

    wait_until(lambda: "were not deleted" in caplog.text, 30, "the brokers' refusal")
    assert reader.bounds((topics.changelog, 0))[0] == 0
    writer.close()
