"""Word count as a job of two stages: the words of a line, then how often each was there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from airflow_provider.kafka.names import repartition_topic
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from airflow_provider.testing.in_memory_clients import Record
from airflow_provider.testing.source_rows import SourceRecord, SourceRows

LINES, COUNTS = "lines", "word-counts"
WORDS = repartition_topic("words", "counts")
AGGREGATES = (F.count().alias("count"), F.max("length").alias("length"))


def job_of(
    *,
    combine: bool,
    partitions: int | None = None,
    by_spark: bool = False,
    aggregates: Sequence[Aggregate] = AGGREGATES,
) -> StatefulJob:
    """The job, whose lines are words already.

    Args:
        combine: whether partial aggregates are combined before the repartition.
        partitions: of the repartition topic; None for as many as the source has.
        by_spark: whether a step needs the lines in Spark.
        aggregates: of each word.
    """
    lines = stream(LINES, schema="word STRING, length INT")
    lines = lines.with_column("length", "octet_length(word)") if by_spark else lines
    words = lines.group_by("word", partitions=partitions)
    return StatefulJob("words", words.aggregate(*aggregates, name="counts", combine=combine).sink(COUNTS))


class LineRows(SourceRows):
    """Lines as rows, one for each word, as an explode would make them: a line without a word has a row, dropped.

    A line with ``?`` in it has a word whose length is none.
    """

    def of(self, records: Sequence[SourceRecord]) -> list[pa.RecordBatch]:
        """See `SourceRows.of`."""
        words = [
            dataclasses.replace(record, record=_word(record.record, word))
            for record in records
            for word in (record.record.value or b"").split() or [b""]
        ]
        return super().of(words)


def _word(record: Record, word: bytes) -> Record:
    value = b'{"word": "%s", "length": %d}' % (word, len(word)) if word != b"?" else b"no JSON"
    return dataclasses.replace(record, value=value if word else b'{"word": ""}')
