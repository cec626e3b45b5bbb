from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pytest
from confluent_kafka import KafkaError, TopicPartition

from airflow_provider.changelog import reader as reader_module
from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import COMMIT_KEY
from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.errors import (
    ConfigurationError,
    StoreOutdatedError,
    TopicDamagedError,
    TopicMismatchError,
    TopicMissingError,
)
from airflow_provider.kafka.connection import KafkaConnection


@dataclass
class FakeMessage:
    topic_: str | None
    partition_: int
    offset_: int
    key_: bytes | None = b"k"
    value_: bytes | None = b"v"
    code: int | None = None
    reason: str | None = None

    def topic(self) -> str | None:
        return self.topic_

    def partition(self) -> int:
        return self.partition_

    def offset(self) -> int:
        return self.offset_

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self.offset_

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code, self.reason)


class FakeConsumer:
    """Gives what it was given."""

    def __init__(self, _: object) -> None:
        self.messages: Sequence[FakeMessage] = ()
        self.low = 0

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Nothing: what is given does not depend on it."""

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Nothing either."""

    def consume(self, number: int, timeout_s: float) -> list[FakeMessage]:
        return list(self.messages)

    def get_watermark_offsets(self, partition: TopicPartition, **_: object) -> tuple[int, int]:
        return (self.low, -1001 if partition.partition == 1 else 500)


def record(partition: int, offset: int, key: bytes = b"k", value: bytes | None = b"v") -> FakeMessage:
    return FakeMessage("c", partition, offset, key, value)


def event(code: int, partition: int = 0, offset: int = 0, topic: str | None = "c") -> FakeMessage:
    return FakeMessage(topic, partition, offset, None, None, code)


def end(partition: int, offset: int) -> FakeMessage:
    return event(KafkaError._PARTITION_EOF, partition, offset)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> ChangelogReader:
    monkeypatch.setattr(reader_module, "Consumer", FakeConsumer)
    return ChangelogReader(KafkaConnection("broker:9092"), "app")


def read(reader: ChangelogReader, partitions: Sequence[int], *messages: FakeMessage) -> dict[int, ChangelogBatch]:
    for partition in partitions:
        reader.add(("c", partition), 0)
    cast(FakeConsumer, reader.consumer).messages = messages
    return {partition: batch for (_, partition), batch in reader.read(100, 0.0).items()}


def newest_of(batch: ChangelogBatch) -> dict[bytes, bytes | None]:
    return dict(zip(batch.keys, batch.values, strict=True))


def test_records_are_put_together_by_partition_and_the_newest_of_a_key_wins(reader: ChangelogReader) -> None:
    batches = read(
        reader, [0, 1],
        record(0, 5, b"a", b"1"), record(0, 6, b"b", b"1"), record(1, 3, b"a", b"9"), record(0, 9, b"a", None),
    )  # fmt: skip

    assert newest_of(batches[0]) == {b"a": None, b"b": b"1"}
    assert (batches[0].records, batches[0].next_offset, batches[0].timestamp_ms) == (3, 10, 1009)
    assert newest_of(batches[1]) == {b"a": b"9"}
    assert not batches[0].at_end


def test_commit_records_are_kept_apart_and_the_last_one_counts(reader: ChangelogReader) -> None:
    batches = read(
        reader, [0],
        record(0, 1, b"a", b"1"), record(0, 2, COMMIT_KEY, b"first"),
        record(0, 3, COMMIT_KEY, b"second"), record(0, 4, b"b", b"22"),
    )  # fmt: skip

    assert (batches[0].keys, batches[0].values) == ([b"a", b"b"], [b"1", b"22"])
    assert (batches[0].commit, batches[0].records) == (b"second", 4)
    assert batches[0].record_bytes == 2 + 3 + len(COMMIT_KEY) * 2 + len(b"firstsecond")


def test_record_without_a_key_is_another_program_s_and_nothing_before_it_is_lost(reader: ChangelogReader) -> None:
    batches = read(reader, [0], record(0, 5), FakeMessage("c", 0, 6, None, b"v"), record(0, 7))

    assert (batches[0].keys, batches[0].next_offset) == ([b"k"], 6)
    with pytest.raises(TopicMismatchError, match=r"Offset 6 of c\[0\] has no key"):
        raise batches[0].error or AssertionError("no error")


def test_end_counts_only_while_nothing_follows_it(reader: ChangelogReader) -> None:
    batches = read(reader, [0, 1], record(0, 5), end(0, 7), end(1, 0), record(1, 0))

    assert (batches[0].at_end, batches[0].next_offset) == (True, 7)
    assert (batches[1].at_end, batches[1].next_offset) == (False, 1)


def test_known_end_comes_with_the_fetch(reader: ChangelogReader) -> None:
    batches = read(reader, [0, 1], record(0, 5), record(1, 5))

    assert (batches[0].known_end, batches[1].known_end) == (500, None)


def test_event_of_no_partition_hides_no_record_of_the_only_one(reader: ChangelogReader) -> None:
    batches = read(reader, [0], event(KafkaError._ALL_BROKERS_DOWN, -1, topic=None), record(0, 5), record(0, 6))

    assert batches[0].records == 2


def test_what_is_left_of_a_removed_partition_is_skipped(reader: ChangelogReader) -> None:
    assert read(reader, [0], record(1, 5), record(0, 6)).keys() == {0}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param(KafkaError._AUTO_OFFSET_RESET, StoreOutdatedError, id="offset-not-in-the-log"),
        pytest.param(KafkaError.OFFSET_OUT_OF_RANGE, StoreOutdatedError, id="offset-out-of-range"),
        pytest.param(KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMissingError, id="topic-gone"),
        pytest.param(KafkaError._UNKNOWN_PARTITION, TopicMissingError, id="partition-gone"),
        pytest.param(KafkaError.TOPIC_AUTHORIZATION_FAILED, ConfigurationError, id="no-right"),
        pytest.param(KafkaError._BAD_MSG, TopicDamagedError, id="another-checksum"),
    ],
)
@pytest.mark.parametrize("partitions", [[0], [0, 1]], ids=["alone", "among-others"])
def test_partition_that_cannot_be_read_says_why_after_what_came_before(
    partitions: list[int], code: int, kind: type[Exception], reader: ChangelogReader
) -> None:
    cast(FakeConsumer, reader.consumer).low = 50

    batches = read(reader, partitions, record(0, 5), event(code), record(1, 3), record(0, 6), end(0, 7))

    assert isinstance(batches[0].error, kind)
    assert "c[0]" in str(batches[0].error)
    assert (batches[0].records, batches[0].next_offset, batches[0].at_end) == (1, 6, False)
    assert ("c", 0) not in reader.assigned, "it is read again once it is added again"


def test_offset_that_is_asked_for_behind_a_damaged_record_is_no_verdict_on_the_store(reader: ChangelogReader) -> None:
    batches = read(reader, [0], record(0, 5), event(KafkaError._AUTO_OFFSET_RESET, offset=2**62))

    assert (batches[0].records, batches[0].error) == (1, None)
    assert ("c", 0) in reader.assigned, "it is read again, and the damaged record is met again"


def test_position_beyond_what_a_new_leader_cut_is_no_place_to_go_on_from_however_long_the_log_is_by_now(
    reader: ChangelogReader,
) -> None:
    # As librdkafka 2.16 says it where the leader's epochs show it (KIP-320).
    reason = (
        "Partition log truncation detected at offset 6 (leader epoch 3): broker end offset is 4 (offset leader epoch "
        "3). Reset to INVALID.: Local: Partition log truncation detected (broker 2)"
    )
    cut = FakeMessage("c", 0, 6, None, None, KafkaError._AUTO_OFFSET_RESET, reason)

    batches = read(reader, [0], record(0, 5), cut)

    assert isinstance(batches[0].error, StoreOutdatedError)
    assert "A new leader of c[0] lacks records before the position 6" in str(batches[0].error)
    assert ("c", 0) not in reader.assigned


def test_passing_trouble_of_a_partition_is_none_of_the_readers(reader: ChangelogReader) -> None:
    batches = read(reader, [0], record(0, 5), event(KafkaError.REQUEST_TIMED_OUT), record(0, 6))

    assert (batches[0].records, batches[0].error) == (2, None)
