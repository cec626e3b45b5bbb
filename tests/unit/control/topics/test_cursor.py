from __future__ import annotations

import dataclasses
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.codec import Value, to_key, to_value
from airflow_provider.control.topics.cursor import LOOK_EVERY_S, ControlCursor, Ends, consumer_config
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError, TopicDamagedError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from tests.builders import APPLICATION, assigned, instance

FIRST, SECOND = "assignment", "status"
ASSIGNMENTS = f"{APPLICATION}-assignment"


class FakeMessage:
    """A record, or a consumer's event."""

    def __init__(self, topic: str, offset: int, value: Value | None = None, error: KafkaError | None = None) -> None:
        self._topic, self._offset, self._value, self._error = topic, offset, value or assigned("a"), error

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return self._topic

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return to_key(self._value)

    def partition(self) -> int:
        return 0

    def value(self) -> bytes:
        return to_value(self._value)

    def timestamp(self) -> tuple[int, int]:
        return 2, 1_000


def record(topic: str, offset: int, value: Value | None = None) -> Message:
    return cast(Message, FakeMessage(topic, offset, value))


def event(topic: str, offset: int, code: int = KafkaError._PARTITION_EOF) -> Message:
    return cast(Message, FakeMessage(topic, offset, error=KafkaError(code)))


@pytest.fixture
def cursor() -> ControlCursor:
    return ControlCursor(ControlView(APPLICATION), [FIRST, SECOND], now=0.0)


def test_record_is_applied_and_moves_its_position(cursor: ControlCursor) -> None:
    assert cursor.take(record(SECOND, 4, instance("a")))

    assert set(cursor.view.statuses) == {"a"}
    assert cursor.restart() == {FIRST: 0, SECOND: 5}


def test_empty_topic_is_only_read_once_its_end_was_seen(cursor: ControlCursor) -> None:
    cursor.take(event(FIRST, 0))
    assert not cursor.reached({FIRST: 0, SECOND: 0})

    cursor.take(event(SECOND, 0))
    assert cursor.reached({FIRST: 0, SECOND: 0})
    assert cursor.at_end


def test_unknown_topic_is_never_read_to_its_end(cursor: ControlCursor) -> None:
    cursor.take(record(FIRST, 0))

    assert not cursor.reached({FIRST: 1, SECOND: None})


def test_record_after_the_end_takes_the_end_back(cursor: ControlCursor) -> None:
    cursor.take(event(FIRST, 0))
    cursor.take(event(SECOND, 0))

    cursor.take(record(SECOND, 0, instance("a")))

    assert not cursor.at_end


def test_end_is_asked_for_now_and_then(cursor: ControlCursor) -> None:
    assert not cursor.look_due(LOOK_EVERY_S)
    assert cursor.look_due(LOOK_EVERY_S + 0.1)

    cursor.looked({FIRST: 0, SECOND: 0}, 6.0)

    assert not cursor.look_due(10.9)


def test_consumer_that_stays_behind_an_end_between_two_looks_receives_nothing(cursor: ControlCursor) -> None:
    cursor.take(record(SECOND, 0, instance("a")))
    ends = {FIRST: 0, SECOND: 3}

    assert not cursor.looked(ends, 6.0)
    assert cursor.looked(ends, 12.0)
    assert cursor.restart() == {FIRST: 0, SECOND: 1}


def test_consumer_that_moves_is_only_slow(cursor: ControlCursor) -> None:
    ends = {FIRST: 0, SECOND: 9}
    cursor.looked(ends, 6.0)

    cursor.take(record(SECOND, 0, instance("a")))

    assert not cursor.looked(ends, 12.0)


def test_new_consumer_gets_as_much_time_as_the_first(cursor: ControlCursor) -> None:
    ends = {FIRST: 0, SECOND: 3}
    cursor.looked(ends, 6.0)
    assert cursor.looked(ends, 12.0)
    cursor.restart()

    assert not cursor.looked(ends, 18.0)
    assert cursor.looked(ends, 24.0)


def test_brokers_that_do_not_answer_say_nothing_of_the_consumer(cursor: ControlCursor) -> None:
    ends = {FIRST: 0, SECOND: 3}
    cursor.looked(ends, 6.0)

    assert not cursor.looked(None, 12.0)
    assert not cursor.looked(ends, 18.0)


def test_topic_that_is_said_to_be_unknown_is_looked_for_at_once(cursor: ControlCursor) -> None:
    cursor.take(event(FIRST, -1, KafkaError.UNKNOWN_TOPIC_OR_PART))

    assert cursor.look_due(0.1)


def test_unknown_topic_asks_for_new_clients_and_is_missing_after_twenty_seconds(cursor: ControlCursor) -> None:
    ends = {FIRST: None, SECOND: 0}

    assert all(cursor.looked(ends, now) for now in (6.0, 12.0, 26.0))
    with pytest.raises(TopicMissingError, match=r"'assignment'.*CreateChangelogTopicsOperator"):
        cursor.looked(ends, 26.1)


def test_topic_that_was_known_between_gets_its_time_again(cursor: ControlCursor) -> None:
    cursor.looked({FIRST: None, SECOND: 0}, 6.0)
    cursor.looked({FIRST: 0, SECOND: 0}, 12.0)

    assert cursor.looked({FIRST: None, SECOND: 0}, 30.0)


def test_fatal_error_is_raised_and_another_skipped(cursor: ControlCursor) -> None:
    cursor.take(event(FIRST, 0, KafkaError._ALL_BROKERS_DOWN))

    with pytest.raises(KafkaException):
        cursor.take(cast(Message, FakeMessage(FIRST, 0, error=KafkaError(KafkaError._FENCED, "gone", fatal=True))))


def test_damaged_record_is_never_taken_for_a_decision(cursor: ControlCursor) -> None:
    assert consumer_config(KafkaConnection("broker:9092"), APPLICATION)["check.crcs"] is True

    with pytest.raises(TopicDamagedError, match=rf"Offset 3 of {FIRST}\[0\] is damaged"):
        cursor.take(event(FIRST, 3, KafkaError._BAD_MSG))


def test_topic_that_may_not_be_read_is_an_error_that_names_it_and_a_group_is_not(cursor: ControlCursor) -> None:
    cursor.take(event(SECOND, -1, KafkaError.GROUP_AUTHORIZATION_FAILED))  # the topics are read without one

    with pytest.raises(ConfigurationError, match=r"Reading status is not authorized.*Read on those"):
        cursor.take(event(SECOND, -1, KafkaError.TOPIC_AUTHORIZATION_FAILED))


@pytest.mark.parametrize("again", [event(SECOND, 0), record(SECOND, 0, instance("a"))], ids=["its-end", "a-record"])
def test_topic_that_may_not_be_read_is_refused_until_something_of_it_comes(
    again: Message, cursor: ControlCursor
) -> None:
    """A consumer says it once, and at the end of a topic does not say that it reads again: only a new one does."""
    with pytest.raises(ConfigurationError):
        cursor.take(event(SECOND, -1, KafkaError.TOPIC_AUTHORIZATION_FAILED))
    for _ in range(2):
        cursor.take(event(FIRST, 0))
        with pytest.raises(ConfigurationError, match="Reading status is not authorized"):
            cursor.check()
        assert cursor.looked({FIRST: 0, SECOND: 0}, 1.0), "the consumer is to be replaced"
        cursor.restart()

    cursor.take(again)

    cursor.check()
    assert not cursor.looked({FIRST: 0, SECOND: 0}, 1.0)


def test_consumer_that_is_past_the_end_of_a_topic_that_was_created_again_begins_anew(cursor: ControlCursor) -> None:
    cursor.take(record(FIRST, 3))
    cursor.take(record(SECOND, 600, instance("a")))
    ends = {FIRST: 4, SECOND: 40}

    assert cursor.beyond(ends)
    assert not cursor.looked(ends, 6.0)
    assert cursor.looked(ends | {SECOND: 55}, 12.0)

    assert cursor.restart() == {FIRST: 4, SECOND: 0}
    assert not cursor.beyond(ends)
    assert not cursor.reached(ends)


def test_topic_that_was_created_again_and_holds_more_than_was_read_is_told_by_its_id(cursor: ControlCursor) -> None:
    cursor.identify({FIRST: "one", SECOND: "two"})
    cursor.take(record(FIRST, 3))
    cursor.take(record(SECOND, 4, instance("a")))

    assert not cursor.identify({FIRST: "one", SECOND: "two"})
    assert not cursor.identify({}), "the brokers gave none"
    assert cursor.identify({FIRST: "one", SECOND: "another"})

    assert cursor.restart() == {FIRST: 4, SECOND: 0}
    assert not cursor.identify({FIRST: "one", SECOND: "another"})


def test_what_was_read_before_its_topic_could_be_told_is_read_again(cursor: ControlCursor) -> None:
    cursor.take(record(FIRST, 3))

    assert cursor.identify({FIRST: "one", SECOND: "two"})
    assert cursor.restart() == {FIRST: 0, SECOND: 0}

    cursor.take(record(FIRST, 0))
    assert not cursor.identify({FIRST: "one", SECOND: "two"})
    assert cursor.restart() == {FIRST: 1, SECOND: 0}


def test_id_that_was_asked_for_before_anything_was_read_ends_no_topic_before_its_end_was_seen(
    cursor: ControlCursor,
) -> None:
    assert not cursor.identify({FIRST: "one", SECOND: "two"})
    assert not cursor.reached({FIRST: 0, SECOND: 0})


def again(forgets: bool) -> ControlCursor:
    """A reader that has read a ninth generation, with its incident."""
    cursor = ControlCursor(ControlView(APPLICATION), [ASSIGNMENTS, SECOND], now=0.0, forgets=forgets)
    cursor.identify({ASSIGNMENTS: "one"})
    cursor.take(record(ASSIGNMENTS, 300, dataclasses.replace(assigned("a"), generation=9)))
    cursor.view.incidents["generation/2"] = cast(IncidentRecord, None)
    return cursor


@pytest.mark.parametrize("begins", ["with-a-record", "empty", "behind-where-it-was-read", "with-more-than-was-read"])
def test_watcher_forgets_the_decisions_of_an_assignment_topic_that_was_created_again(begins: str) -> None:
    cursor = again(forgets=True)

    if begins == "with-a-record":
        cursor.take(record(ASSIGNMENTS, 0, dataclasses.replace(assigned("b"), generation=1)))
    elif begins == "empty":
        cursor.take(event(ASSIGNMENTS, 0))
    elif begins == "with-more-than-was-read":
        assert cursor.identify({ASSIGNMENTS: "another"})
    else:
        assert not cursor.looked({ASSIGNMENTS: 2, SECOND: 0}, 6.0)
        assert cursor.looked({ASSIGNMENTS: 2, SECOND: 0}, 12.0)

    assert cursor.began_anew
    assert cursor.view.incidents == {}
    found = cursor.view.assignment
    assert (found and found.generation) == (1 if begins == "with-a-record" else None)


@pytest.mark.parametrize("ends", [{ASSIGNMENTS: 1, SECOND: 0}, None], ids=["known", "not-known"])
def test_watcher_reads_from_the_beginning_where_a_new_leader_lacks_the_newest_records(ends: Ends | None) -> None:
    cursor = again(forgets=True)

    cursor.take(event(ASSIGNMENTS, 1))

    assert cursor.began_anew
    assert cursor.look_due(0.0)
    assert cursor.looked(ends, 0.0)
    assert cursor.restart() == {ASSIGNMENTS: 0, SECOND: 0}
    cursor.take(record(ASSIGNMENTS, 0, assigned("a")))
    assert cursor.view.assignment == assigned("a")
    assert not cursor.look_due(1.0)


def test_instance_goes_on_with_the_decision_that_it_read_until_a_later_generation_comes() -> None:
    cursor = again(forgets=False)

    cursor.take(record(ASSIGNMENTS, 0, dataclasses.replace(assigned("b"), generation=1)))

    assert not cursor.began_anew
    assert cursor.view.assignment is not None
    assert cursor.view.assignment.generation == 9
