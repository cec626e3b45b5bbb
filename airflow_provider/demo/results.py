"""What the job left in Kafka, read as any consumer would, and what the failover cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Message

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.report import FailoverReport
from airflow_provider.control.topics.span_reader import SpanReader
from airflow_provider.demo.flights import Aircraft, AirportHour
from airflow_provider.demo.judge import COMMIT_KEY, Commit, Outputs, T, decode_commit
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin

_DEADLINE_S: Final = 60.0

OutputTimes = Mapping[int, list[int]]
"""By partition, when the broker stored each output, epoch ms, in order."""


def _messages(connection: KafkaConnection, topic: str) -> Iterator[Message]:
    """Every committed record up to the end that the topic has now; those of one partition in their order."""
    partitions = range(TopicAdmin(connection).partitions(topic))
    with SpanReader(connection, "demo", topic, timeout_s=_DEADLINE_S) as reader:
        yield from reader.read({number: reader.bounds(number) for number in partitions})


def read_state(
    connection: KafkaConnection, changelog: str, source: str, decode: Callable[[bytes, bytes], tuple[str, T]]
) -> tuple[dict[str, T], dict[int, Commit]]:
    """The newest state of every key, and the last commit record of every task of a stage.

    Args:
        changelog: the changelog's topic, or that of the commits of a stage without a store.
        source: the stage's source, named in the commit records.
        decode: of a record's key and value, see `judge`.
    """
    state: dict[bytes, bytes] = {}
    commits: dict[int, Commit] = {}
    for message in _messages(connection, changelog):
        key, value = message.key() or b"", message.value()
        if key == COMMIT_KEY:
            commits[int(message.partition() or 0)] = decode_commit(value or b"", source)
        elif value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return dict(decode(key, value) for key, value in state.items()), commits


def read_outputs(
    connection: KafkaConnection, sink: str, row_of: Callable[[Mapping[str, Any]], T]
) -> tuple[Outputs[T], OutputTimes]:
    """Every output that a reader under ``read_committed`` gets, and when the broker stored it."""
    outputs, times = Outputs[T](), dict[int, list[int]]()
    for message in _messages(connection, sink):
        row = row_of(json.loads(message.value() or b"null"))
        partition, (_, stored_ms) = int(message.partition() or 0), message.timestamp()
        outputs.take((message.key() or b"").decode(), row, f"{sink}, partition {partition}, offset {message.offset()}")
        times.setdefault(partition, []).append(stored_ms)
    return outputs, times


def aircraft_of(value: Mapping[str, Any]) -> Aircraft:
    """Of an output."""
    return Aircraft(
        value["flights"], value["distance"], value["dep_delay_sum"], value["dep_delay_max"], value["last_dest"]
    )


def airport_hour_of(value: Mapping[str, Any]) -> AirportHour:
    """Of an output."""
    return AirportHour(value["flights"], value["dep_delay_mean"])


@dataclass(frozen=True)
class Timeline:
    """One failover, in epoch ms of this machine's one clock; None where it is not known.

    Args:
        detected_ms: the watcher saw it.
        promoted_ms: the last of the tasks was owned by its new instance.
        first_output_ms: the first of the tasks had committed output again.
        all_outputs_ms: all of the tasks had.
        restored_ms: every task had a warm standby again.
        replayed: changelog records that the new owner had to apply before it went on.
    """

    killed_ms: int
    detected_ms: int | None
    decided_ms: int | None
    promoted_ms: int | None
    first_output_ms: int | None
    all_outputs_ms: int | None
    restored_ms: int | None
    replayed: int | None
    tasks: tuple[TaskId, ...]

    @property
    def rto_s(self) -> float | None:
        """From the kill until every task of the killed instance had committed output again."""
        return self.since_kill_s(self.all_outputs_ms)

    def since_kill_s(self, at_ms: int | None) -> float | None:
        """Seconds after the kill."""
        return None if at_ms is None else (at_ms - self.killed_ms) / 1000

    def steps(self) -> tuple[tuple[str, float | None], ...]:
        """Each step's name, and its seconds after the kill."""
        return tuple(
            (name, self.since_kill_s(at_ms))
            for name, at_ms in (
                ("killed", self.killed_ms),
                ("detected", self.detected_ms),
                ("decided", self.decided_ms),
                ("promoted", self.promoted_ms),
                ("first committed output", self.first_output_ms),
                ("output of all its tasks", self.all_outputs_ms),
                ("redundancy restored", self.restored_ms),
            )
        )

    @classmethod
    def of(cls, killed_ms: int, tasks: Sequence[TaskId], report: FailoverReport | None, times: OutputTimes) -> Timeline:
        """Put the sources together.

        The sink's partition *i* holds the output of task ``0_i``: both topics have the same partitions and keys. What
        was stored there after the decision is the new owner's. The broker's stamp is that of the record, not of its
        commit, which the new owner reports for the last of its tasks, those of later stages among them; so that one
        may move the end, never shorten it.

        Args:
            report: the failover's report; None when the failure was not answered.
            times: by partition of stage 0's sink, when the broker stored each output.
        """
        decided_ms = report.decided_at_ms if report else None
        first: list[int | None] = [
            next((at for at in times.get(task.partition, ()) if decided_ms is not None and at >= decided_ms), None)
            for task in tasks
            if task.stage == 0
        ]
        known = [at for at in first if at is not None]
        reported = report.first_commit_at_ms if report else None
        return cls(
            killed_ms,
            report.detected_at_ms if report else None,
            decided_ms,
            report.owned_at_ms if report else None,
            min(known, default=None),
            max(*known, reported) if known and len(known) == len(first) and reported is not None else None,
            report.resolved_at_ms if report else None,
            report.restored_records if report else None,
            tuple(tasks),
        )
