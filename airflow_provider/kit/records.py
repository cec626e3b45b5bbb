"""Records as lines of text, ``key<TAB>JSON``: written to a topic, and read from it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Producer, TopicPartition

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.transactional_producer import DeliveryErrors
from airflow_provider.kit.errors import RecordsError

SILENT: Final = logging.Logger("airflow_provider.kit", level=logging.CRITICAL + 1)
"""A logger that drops everything, such as the warnings of a client whose broker is only just starting."""


_FLUSH_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class TextRecord:
    """A record whose key and value are text.

    Args:
        value: JSON, or any text; None for a deletion.
        headers: by name, those that a record has that was read; of one name the last.
    """

    key: str | None
    value: str | None
    headers: Mapping[str, str | None] = field(default_factory=dict)

    def to_line(self, *, headers: bool = False) -> str:
        """Write as `parse_line` reads it. A record without a key is its value alone.

        Args:
            headers: whether a tab and the headers follow, as a JSON object.
        """
        value = self.value or ""
        line = value if self.key is None else f"{self.key}\t{value}"
        return f"{line}\t{json.dumps(self.headers, ensure_ascii=False)}" if headers else line


def parse_line(line: str, number: int, *, raw: bool = False) -> TextRecord | None:
    """The record of one line, with or without its line break; None for a line of blanks.

    Args:
        line: ``key<TAB>JSON``; ``JSON`` alone has no key; nothing after the tab deletes the key.
        raw: whether the value may be any text, for a record that no job can read.

    Raises:
        RecordsError: the value is not JSON.
    """
    if not line.strip():
        return None
    text = line.rstrip("\r\n")
    key, tab, value = text.partition("\t") if "\t" in text else ("", "", text)
    if tab and not value.strip():
        return TextRecord(key, None)
    try:
        if not raw:
            json.loads(value)
    except ValueError as error:
        raise RecordsError(
            f"Line {number} is not a record: expected key<TAB>JSON, or JSON alone, found {value[:80]!r} as the JSON "
            f"({error}). Correct the line, or write it as it is with --raw; the lines before it were written."
        ) from error
    return TextRecord(key if tab else None, value)


def produce(connection: KafkaConnection, topic: str, lines: Iterable[str], *, raw: bool = False) -> int:
    """Write a record for each line, as it arrives, with the Java clients' partitioner; returns how many.

    Raises:
        TopicMissingError: there is no such topic.
        RecordsError: a line is not a record, or the brokers did not store one. Lines before it may be written.
    """
    TopicAdmin(connection).partitions(topic)
    failures = DeliveryErrors()
    config = {"enable.idempotence": True, "partitioner": "murmur2_random", "message.timeout.ms": int(_FLUSH_S * 1000)}
    producer = Producer(connection.to_client_config() | config, logger=SILENT)
    written = 0
    try:
        for number, line in enumerate(lines, start=1):
            record = parse_line(line, number, raw=raw)
            if record is None:
                continue
            while True:
                try:
                    producer.produce(topic, record.value, record.key, on_delivery=failures)
                    break
                except BufferError:  # its queue is full
                    producer.poll(0.1)
            written += 1
            producer.poll(0)
    finally:
        left = producer.flush(_FLUSH_S)
    if failures or left:
        why = failures[0].str() if failures else f"no answer within {_FLUSH_S:g} s"
        raise RecordsError(
            f"{len(failures) + left} of {written} records were not stored in topic {topic!r} ({why}): check that the "
            "broker runs, and write them again."
        )
    return written


def consume(
    connection: KafkaConnection,
    topic: str,
    *,
    from_beginning: bool = False,
    timeout_s: float | None = None,
    at_end: Callable[[], None] = lambda: None,
) -> Iterator[TextRecord]:
    """Read the committed records of all partitions; those of one partition in their order.

    Args:
        from_beginning: whether to begin with the oldest records; otherwise with those written from now on.
        timeout_s: how long to wait for the next record before it ends; None waits without end.
        at_end: called once, when it has come to the end of every partition and waits for new records.

    Raises:
        TopicMissingError: there is no such topic.
        RecordsError: the brokers refused to be read.
    """
    partitions = TopicAdmin(connection).partitions(topic)
    start = OFFSET_BEGINNING if from_beginning else OFFSET_END
    consumer = Consumer(
        connection.to_client_config()
        | {
            "group.id": "kit-consume",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        },
        logger=SILENT,
    )
    try:
        consumer.assign([TopicPartition(topic, number, start) for number in range(partitions)])
        last, before_end = time.monotonic(), set(range(partitions))
        while timeout_s is None or time.monotonic() - last < timeout_s:
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                headers = {str(header[0]): _text(header[1]) for header in message.headers() or ()}
                yield TextRecord(_text(message.key()), _text(message.value()), headers)
                last = time.monotonic()
            elif error.code() == KafkaError._PARTITION_EOF:
                if before_end == {message.partition()}:
                    at_end()
                before_end.discard(int(message.partition() or 0))
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise RecordsError(f"Topic {topic!r} could not be read ({error.str()}): check that the broker runs.")
    finally:
        consumer.close()


def _text(data: str | bytes | None) -> str | None:
    return data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data
