from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from airflow_provider.changelog.commit_record import (
    COMMIT_KEY,
    CommitRecord,
    SegmentDigests,
    SourcePosition,
    holds_all_of,
    newest_commit,
)
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import TopicMismatchError
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.state.time_segments import TimeSegments, TimeSpans

RECORD = CommitRecord(
    application_id="orders",
    task=TaskId(0, 3),
    sequence=12,
    generation=7,
    instance="i1",
    incarnation=1_700_000_000_000,
    committed_at_ms=1_700_000_000_500,
    sources={"in": SourcePosition(42, "topic-id"), "rates": SourcePosition(7)},
    processed=40,
    filtered={"no_amount": 2},
)


def read(data: bytes, application_id: str = "orders", task: TaskId = RECORD.task) -> CommitRecord:
    return CommitRecord.from_bytes(data, application_id, task, "orders-state-changelog")


def test_reads_back_the_same() -> None:
    assert read(RECORD.to_bytes()) == RECORD


def test_is_json_that_people_can_read() -> None:
    found = json.loads(RECORD.to_bytes())

    assert (found["format"], found["task"], found["sequence"]) == (1, "0_3", 12)
    assert found["sources"] == {
        "in": {"offset": 42, "topic_id": "topic-id"},
        "rates": {"offset": 7, "topic_id": None},
    }
    assert (found["stream_time_ms"], found["signature"]) == (None, {})


def test_record_of_an_earlier_version_counts_no_outputs() -> None:
    fields = json.loads(dataclasses.replace(RECORD, outputs={"out": 3}).to_bytes())
    assert read(json.dumps(fields).encode()).outputs == {"out": 3}

    del fields["outputs"]

    assert read(json.dumps(fields).encode()).outputs is None


def of_spans(spans: TimeSpans) -> CommitRecord:
    lasts = [last for _, last in spans.spans]
    return dataclasses.replace(
        RECORD,
        segment_offsets={"windows": {str(last): 100 + last for last in lasts}},
        segment_digests={"windows": SegmentDigests.of(spans, {last: last * 7 % 2**64 for last in lasts})},
        segment_spans={"windows": {str(last): first for last, first in spans.firsts.items()}},
    )


@pytest.mark.parametrize("spans", [(), ((0, 0), (20, 20)), ((-30, -10), (0, 0), (10, 90))], ids=str)
def test_spans_and_their_digests_are_read_back(spans: tuple[tuple[int, int], ...]) -> None:
    written = TimeSpans(10, spans)
    record = read(of_spans(written).to_bytes())

    assert record.time_spans("windows", TimeSegments(10)) == written
    digests = record.segment_digests["windows"]
    assert digests.digests_of(written) == {last: last * 7 % 2**64 for _, last in spans}
    assert digests.digests_of(TimeSpans(15, spans)) is None
    assert record.time_spans("others", TimeSegments(10)) == TimeSpans(10)


def test_segments_of_a_record_of_an_earlier_version_are_spans() -> None:
    written = TimeSpans(10, ((0, 0), (10, 10), (40, 40)))
    fields = json.loads(of_spans(written).to_bytes())
    del fields["segment_spans"]

    record = read(json.dumps(fields).encode())

    assert record.time_spans("windows", TimeSegments(10)) == written
    assert record.segment_digests["windows"].digests_of(written) == {0: 0, 10: 70, 40: 280}


def test_earlier_version_takes_spans_for_segments_that_are_cut_otherwise() -> None:
    # It goes on with digests of the length that it knows, and computes others anew.
    assert of_spans(TimeSpans(10, ((0, 0), (10, 90)))).segment_digests["windows"].length_ms == 90
    assert of_spans(TimeSpans(10, ((0, 0), (10, 10)))).segment_digests["windows"].length_ms == 10


def test_source_offset_is_that_of_a_topic_that_was_read() -> None:
    assert [RECORD.source_offset(topic) for topic in ("in", "rates", "never")] == [42, 7, None]


@pytest.mark.parametrize(
    ("topic", "topic_id", "refused"),
    [
        pytest.param("in", "topic-id", None, id="the-same"),
        pytest.param("in", None, None, id="its-id-is-not-known-now"),
        pytest.param("rates", "new-id", None, id="its-id-was-not-known-then"),
        pytest.param(
            "in", "new-id", "'in' with the id topic-id up to offset 42.*has the id new-id", id="created-again"
        ),
        pytest.param("others", "new-id", None, id="another-topic-which-is-a-change-of-the-job"),
    ],
)
def test_source_that_was_created_again_is_refused(topic: str, topic_id: str | None, refused: str | None) -> None:
    if refused is None:
        RECORD.check_source(topic, topic_id)
        return
    with pytest.raises(TopicMismatchError, match=refused):
        RECORD.check_source(topic, topic_id)


def test_commit_without_a_source_goes_with_any() -> None:
    dataclasses.replace(RECORD, sources={}).check_source("in", "topic-id")


def test_lies_under_a_reserved_key() -> None:
    assert COMMIT_KEY.startswith(RESERVED_PREFIX)


def test_fields_of_a_later_version_are_skipped() -> None:
    assert read(json.dumps({**json.loads(RECORD.to_bytes()), "later": 1}).encode()) == RECORD


@pytest.mark.parametrize(
    ("data", "application_id", "task", "message"),
    [
        pytest.param(
            RECORD.to_bytes(), "payments", TaskId(0, 3), "application 'orders', task 0_3", id="of-another-application"
        ),
        pytest.param(RECORD.to_bytes(), "orders", TaskId(0, 4), "application 'orders', task 0_3", id="of-another-task"),
        pytest.param(
            RECORD.to_bytes(),
            "orders",
            TaskId(1, 3),
            r"expected task 1_3.*put its sinks back into the order",
            id="of-another-stage",
        ),
        pytest.param(b"\x00", "orders", TaskId(0, 3), "cannot be read", id="no-json"),
        pytest.param(b'{"format": 1, "later": ' + b"[" * 100_000, "orders", TaskId(0, 3), "cannot be read", id="deep"),
        pytest.param(
            RECORD.to_bytes().replace(b"i1", b"i\xff"), "orders", TaskId(0, 3), "cannot be read", id="no-text"
        ),
        pytest.param(b"{}", "orders", TaskId(0, 3), "cannot be read", id="of-another-shape"),
        pytest.param(
            b'{"format": 2}', "orders", TaskId(0, 3), "format 2, this version reads up to 1.*Install it", id="newer"
        ),
    ],
)
def test_record_that_is_not_this_tasks_is_refused(data: bytes, application_id: str, task: TaskId, message: str) -> None:
    with pytest.raises(TopicMismatchError, match=message) as caught:
        read(data, application_id, task)

    assert f"orders-state-changelog[{task.partition}]" in str(caught.value)


def bytes_of(sequence: int, **other: Any) -> bytes:
    return dataclasses.replace(RECORD, sequence=sequence, **other).to_bytes()


@pytest.mark.parametrize(
    ("known", "found", "newest"),
    [
        pytest.param(None, None, None, id="none"),
        pytest.param(bytes_of(3), None, bytes_of(3), id="none-came"),
        pytest.param(None, bytes_of(3), bytes_of(3), id="the-first"),
        pytest.param(bytes_of(3), bytes_of(4), bytes_of(4), id="greater-sequence"),
        pytest.param(bytes_of(10), bytes_of(9), bytes_of(10), id="of-a-changelog-that-is-behind"),
        pytest.param(
            bytes_of(10), bytes_of(1, application_id="other"), bytes_of(1, application_id="other"),
            id="of-another-application-is-not-hidden",
        ),
        pytest.param(
            bytes_of(10), bytes_of(1, task=TaskId(0, 4)), bytes_of(1, task=TaskId(0, 4)),
            id="of-another-task-is-not-hidden",
        ),
        pytest.param(bytes_of(10), b"no json", b"no json", id="unreadable-is-not-hidden"),
    ],
)  # fmt: skip
def test_newest_commit_is_that_with_the_greatest_sequence(
    known: bytes | None, found: bytes | None, newest: bytes | None
) -> None:
    assert newest_commit(known, found) == newest


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"sequence": 12}, False),
        ({"sources": {"in": SourcePosition(41), "rates": SourcePosition(7)}}, False),
        ({"sources": {"in": SourcePosition(42)}}, False),
        ({"watermark_ms": 99}, False),
        ({"watermark_ms": None}, False),
    ],
    ids=str,
)
def test_later_commit_stands_for_an_earlier_one_if_neither_source_nor_time_is_behind(
    changes: dict[str, Any], holds: bool
) -> None:
    earlier = dataclasses.replace(RECORD, watermark_ms=100)
    later = dataclasses.replace(earlier, sequence=13, **changes) if "sequence" not in changes else earlier

    assert holds_all_of(earlier.to_bytes(), later.to_bytes()) is holds


@pytest.mark.parametrize(
    ("terms", "later", "holds"),
    [
        pytest.param({"a": 1}, {"a": 1}, True, id="same-owner"),
        pytest.param({"a": 1}, {"a": 1, "b": 13}, True, id="next-owner-behind-it"),
        pytest.param({"a": 1}, {"a": 1, "b": 12}, False, id="next-owner-in-its-place"),
        pytest.param({"a": 1}, {"b": 1}, False, id="all-was-lost"),
        pytest.param({"a": 1, "b": 9}, {"a": 1, "c": 9}, False, id="its-term-was-lost"),
        pytest.param({"a": 1, "b": 9}, {"b": 9, "c": 14}, True, id="older-terms-are-forgotten"),
        pytest.param({}, {"b": 1}, True, id="written-by-an-earlier-version"),
        pytest.param({"a": 1}, {}, True, id="followed-by-an-earlier-version"),
    ],
)
def test_later_commit_stands_for_an_earlier_one_only_where_its_term_went_on_to_it(
    terms: dict[str, int], later: dict[str, int], holds: bool
) -> None:
    before = dataclasses.replace(RECORD, sequence=12, terms=terms)
    after = dataclasses.replace(RECORD, sequence=20, terms=later)

    assert holds_all_of(before.to_bytes(), after.to_bytes()) is holds


def test_commit_names_the_newest_terms_alone() -> None:
    record = dataclasses.replace(RECORD, terms={f"t{n}": n for n in range(1, 9)})

    assert record.terms_with("t8", 20) == record.terms
    assert record.terms_with("t9", 20) == {**{f"t{n}": n for n in range(2, 9)}, "t9": 20}
