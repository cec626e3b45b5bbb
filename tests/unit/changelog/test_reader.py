from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

import pyarrow as pa
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
from airflow_provider.kafka.column_consumer import Columns, PartitionEvent
from airflow_provider.kafka.connection import KafkaConnection

Written = tuple[int, int, bytes | None, bytes | None]
Given = Written | PartitionEvent


class FakeConsumer:
    """Knows the bounds, and is given nothing to read."""

    low = 0

    def __init__(self, _: object) -> None:
        self.given: Sequence[Given] = ()

    def poll(self, timeout_s: float) -> None:
        """Nothing to say."""

    def get_watermark_offsets(self, partition: TopicPartition, **_: object) -> tuple[int, int]:
        return self.low, 500


class FakeColumns(FakeConsumer):
    """Gives what it was given, as `ColumnConsumer` hands it on."""

    def assign(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Nothing: what is given does not depend on it."""

    def unassign(self, partitions: Collection[tuple[str, int]]) -> None:
        """Nothing either."""

    def bounds(self, at: tuple[str, int], timeout_s: float) -> tuple[int, int]:
        return self.low, 500

    def known_end(self, at: tuple[str, int]) -> int | None:
        return None if at[1] == 1 else 500

    def read(self, most: int, timeout_s: float = 0.0) -> Columns:
        rows: dict[int, list[Given]] = {}
        events = [given for given in self.given if isinstance(given, PartitionEvent)]
        wrong, left_out = set[int](), set[tuple[str, int]]()
        for given in self.given:
            if not isinstance(given, PartitionEvent):
                if given[0] not in wrong:
                    rows.setdefault(given[0], []).append(given)
                else:
                    left_out.add(("c", given[0]))
            elif given.error.code() != KafkaError._PARTITION_EOF:
                wrong.add(given.partition)
        events = [
            e for e in events if e.error.code() != KafkaError._PARTITION_EOF or ("c", e.partition) not in left_out
        ]
        names = ("__partition", "__offset", "__source_key", "__value")
        types = (pa.int32(), pa.int64(), pa.binary(), pa.binary())
        columns = zip(*(record for number in sorted(rows) for record in rows[number]), strict=True)
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=False)]
        return Columns({"c": pa.record_batch(arrays, list(names))} if arrays else {}, events, False, left_out)


def record(partition: int, offset: int, key: bytes | None = b"k", value: bytes | None = b"v") -> Written:
    return partition, offset, key, value


def event(
    code: int, partition: int = 0, offset: int = 0, topic: str = "c", reason: str | None = None
) -> PartitionEvent:
    return PartitionEvent(topic, partition, offset, KafkaError(code, reason))


def end(partition: int, offset: int) -> PartitionEvent:
    return event(KafkaError._PARTITION_EOF, partition, offset)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> ChangelogReader:
    monkeypatch.setattr(reader_module, "Consumer", FakeConsumer)
    monkeypatch.setattr(reader_module, "ColumnConsumer", FakeColumns)
    return ChangelogReader(KafkaConnection("broker:9092"), "app")


def read(reader: ChangelogReader, partitions: Sequence[int], *given: Given) -> dict[int, ChangelogBatch]:
    for partition in partitions:
        reader.add(("c", partition), 0)
    cast(FakeColumns, reader._columns).given = given  # noqa: SLF001
    return {partition: batch for (_, partition), batch in reader.read(100, 0.0).items()}


def newest_of(batch: ChangelogBatch) -> dict[bytes, bytes | None]:
    return dict(zip(batch.keys, batch.values, strict=True))


def test_records_are_put_together_by_partition_and_the_newest_of_a_key_wins(reader: ChangelogReader) -> None:
    batches = read(
        reader, [0, 1],
        record(0, 5, b"a", b"1"), record(0, 6, b"b", b"1"), record(1, 3, b"a", b"9"), record(0, 9, b"a", None),
    )  # fmt: skip

    assert newest_of(batches[0]) == {b"a": None, b"b": b"1"}
    assert (batches[0].records, batches[0].next_offset) == (3, 10)
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
    batches = read(reader, [0], record(0, 5), record(0, 6, None), record(0, 7))

    assert (batches[0].keys, batches[0].next_offset) == ([b"k"], 6)
    with pytest.raises(TopicMismatchError, match=r"Offset 6 of c\[0\] has no key"):
        raise batches[0].error or AssertionError("no error")


def test_many_changes_come_in_the_order_of_their_keys_and_those_of_a_key_as_they_were_written(
    reader: ChangelogReader,
) -> None:
    rest = [record(0, offset, b"key-%d" % (offset * 7919 % 2_000)) for offset in range(5, 2_000)]
    batches = read(
        reader, [0],
        record(0, 1, b"key-9", b"old"), record(0, 2, b"key-5", b"x"), record(0, 3, COMMIT_KEY, b"c"), *rest,
        record(0, 2_000, b"key-9", b"new"), record(0, 2_001, b"key-5", None),
    )  # fmt: skip

    assert batches[0].keys == sorted(batches[0].keys)
    assert newest_of(batches[0]) == {key: b"v" for _, _, key, _ in rest} | {b"key-9": b"new", b"key-5": None}
    assert (batches[0].commit_at, batches[0].uncommitted_from, batches[0].first_offset) == (3, 5, 1)
    assert (batches[0].records, len(batches[0].keys)) == (len(rest) + 5, len(rest) + 4)


def test_end_counts_only_while_nothing_follows_it(reader: ChangelogReader) -> None:
    batches = read(reader, [0, 1], record(0, 5), end(0, 7), end(1, 0), record(1, 0))

    assert (batches[0].at_end, batches[0].next_offset) == (True, 7)
    assert (batches[1].at_end, batches[1].next_offset) == (False, 1)


def test_known_end_comes_with_the_fetch(reader: ChangelogReader) -> None:
    batches = read(reader, [0, 1], record(0, 5), record(1, 5))

    assert (batches[0].known_end, batches[1].known_end) == (500, None)


def test_event_of_no_partition_hides_no_record_of_the_only_one(reader: ChangelogReader) -> None:
    batches = read(reader, [0], event(KafkaError._ALL_BROKERS_DOWN, -1, topic=""), record(0, 5), record(0, 6))

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
    cast(FakeColumns, reader._columns).low = 50  # noqa: SLF001

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
    cut = event(KafkaError._AUTO_OFFSET_RESET, offset=6, reason=reason)

    batches = read(reader, [0], record(0, 5), cut)

    assert isinstance(batches[0].error, StoreOutdatedError)
    assert "A new leader of c[0] lacks records before the position 6" in str(batches[0].error)
    assert ("c", 0) not in reader.assigned


def test_what_comes_behind_passing_trouble_of_a_partition_is_read_again(
    reader: ChangelogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Mapping[tuple[str, int], int]] = []
    monkeypatch.setattr(FakeColumns, "assign", lambda _, offsets: begun.append(offsets))

    batches = read(reader, [0], record(0, 5), event(KafkaError.UNKNOWN), record(0, 6), end(0, 7))

    assert (batches[0].records, batches[0].next_offset, batches[0].error) == (1, 6, None)
    assert not batches[0].at_end
    assert begun[-1] == {("c", 0): 6}
