"""Which rows a worker gets that reads its sources itself."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.errors import AccessError, InputLostError, StatefulStreamsError, TopicDamagedError
from airflow_provider.kafka.column_consumer import BEGINNING, END, Columns, PartitionEvent, SourcePartition
from airflow_provider.streaming.worker.step.source_reader import SourceReader, WaitingReader
from airflow_provider.streaming.worker.tasks.lost_input import LostRecords
from airflow_provider.streaming.worker.tasks.plan import WorkerSource

ONE, TWO = TaskId(0, 1), TaskId(0, 2)
OTHER = TaskId(1, 1)
"""Of a stage that reads the same topic."""
EOF, NOT_THERE = KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET


class OpenTask:
    """A task, as much of it as is looked at here."""

    def __init__(self, source_offset: int | None = None) -> None:
        self.source_offset = source_offset
        self.state = TaskState.RUNNING


class Topic:
    """A source in memory, and the consumers that were made for it."""

    def __init__(self) -> None:
        self.starts = {1: 0, 2: 0}
        self.stops = {1: 0, 2: 0}
        self.events: list[PartitionEvent] = []
        self.left_out: set[int] = set()
        """Of these partitions the next read brings nothing on, although something came."""
        self.consumers: list[MemoryConsumer] = []
        self.brings = True
        self.value = b""
        self.silent = False
        """No broker says where a log begins or ends."""
        self.error: BaseException | None = None

    def open(self) -> MemoryConsumer:
        self.consumers.append(MemoryConsumer(self))
        return self.consumers[-1]

    def event(self, partition: int, code: int, offset: int = 0, text: str | None = None) -> None:
        self.events.append(PartitionEvent("in", partition, offset, KafkaError(code, text)))


class MemoryConsumer:
    """Brings each offset of the partitions as a record."""

    ready = 0

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.at: dict[int, int] = {}
        self.assigned: list[dict[int, int]] = []
        self.closed = False

    def assign(self, offsets: Mapping[SourcePartition, int]) -> None:
        new = {partition: offset for (_, partition), offset in offsets.items()}
        assert self.at.keys().isdisjoint(new)
        self.assigned.append(new)
        self.at |= {number: self.topic.starts[number] if at == BEGINNING else at for number, at in new.items()}

    def unassign(self, partitions: Collection[SourcePartition]) -> None:
        for _, partition in partitions:
            del self.at[partition]

    def ends(
        self, partitions: Collection[SourcePartition], timeout_s: float, offset: int = END
    ) -> Mapping[SourcePartition, int]:
        if self.topic.silent:
            return {}
        of = self.topic.starts if offset == BEGINNING else self.topic.stops
        return {at: of[at[1]] for at in partitions}

    def read(self, most: int, timestamps: Collection[str] = ()) -> Columns:
        events, self.topic.events = self.topic.events, []
        left_out, self.topic.left_out = self.topic.left_out, set()
        found = list[tuple[int, int]]()
        for number, at in sorted(self.at.items()):
            stop = min(self.topic.stops[number], at + most - len(found)) if self.topic.brings else at
            found += [(number, offset) for offset in range(at, stop) if number not in left_out]
            self.at[number] = max(at, stop)
        if self.topic.error is not None:
            raise self.topic.error
        rows = {"in": batch(found, self.topic.value)} if found else {}
        return Columns(rows, events, len(found) == most, {("in", number) for number in left_out})

    def close(self) -> None:
        self.closed = True


def batch(records: list[tuple[int, int]], value: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "__partition": pa.array([number for number, _ in records], pa.int32()),
            "__offset": pa.array([offset for _, offset in records], pa.int64()),
            "__value": pa.array([value for _ in records], pa.binary()),
        }
    )


class Bench:
    """A reader of two tasks."""

    def __init__(self, goes_on: bool = False, most: int | None = None, kind: type[SourceReader] = SourceReader) -> None:
        self.topic = Topic()
        self.tasks = {ONE: OpenTask(), TWO: OpenTask()}
        self.errors: dict[TaskId, StatefulStreamsError] = {}
        self.now, self.lost = 100.0, LostRecords()
        source = WorkerSource(topic="in", most_records=most, goes_on_after_loss=goes_on)
        self.reader = kind(
            {0: source, 1: source},
            cast(Any, self.tasks),
            self._isolating,
            self.topic.open,
            self.lost,
            lambda: self.now,
        )

    @contextlib.contextmanager
    def _isolating(self, task: TaskId) -> Iterator[None]:
        try:
            yield
        except StatefulStreamsError as error:
            self.errors[task] = error
            self.tasks[task].state = TaskState.FAILED

    def read(self, *, commits: bool = True, skipped: Collection[TaskId] = ()) -> list[tuple[int, int]]:
        """What comes; it is processed, and committed but for what is skipped."""
        found = list[tuple[int, int]]()
        read, self.more = self.reader.read(self.tasks)
        for stage, rows in read:
            records = list(
                zip(rows.column("__partition").to_pylist(), rows.column("__offset").to_pylist(), strict=True)
            )
            found += records
            for number, offset in records:
                task = TaskId(stage, number)
                if commits and task in self.reader.began_at and task not in skipped:
                    self.tasks[task].source_offset = max(self.tasks[task].source_offset or 0, offset + 1)
            if commits:
                self.reader.handed_on(stage, rows, skipped)
        return found


def test_each_task_is_read_from_where_its_store_stands() -> None:
    bench = Bench()
    bench.topic.stops = {1: 3, 2: 2}
    bench.tasks[TWO].source_offset = 1

    assert bench.read() == [(1, 0), (1, 1), (1, 2), (2, 1)]
    bench.topic.stops = {1: 4, 2: 2}
    assert bench.read() == [(1, 3)]
    assert bench.topic.consumers[0].assigned == [{1: BEGINNING, 2: 1}], "it went on reading"


def test_the_larger_the_records_the_fewer_are_read_at_once() -> None:
    bench = Bench()
    bench.topic.stops, bench.topic.value = {1: 3, 2: 0}, b"x" * (3 << 20)

    assert len(bench.read()) == 3
    bench.topic.stops = {1: 1_000, 2: 0}
    read = bench.read()
    assert (20 < len(read) < 50, bench.more) == (True, True)
    while bench.more:
        read += bench.read()
    assert read == [(1, offset) for offset in range(3, 1_000)]


def test_only_tasks_that_run_are_read() -> None:
    bench = Bench()
    bench.topic.stops = {1: 1, 2: 1}
    bench.tasks[ONE].state = TaskState.RESTORING

    assert bench.read() == [(2, 0)]
    bench.tasks[ONE].state, bench.tasks[TWO].state = TaskState.RUNNING, TaskState.FOLLOWING
    bench.topic.stops = {1: 1, 2: 2}
    assert bench.read() == [(1, 0)]
    assert bench.topic.consumers[0].assigned == [{2: BEGINNING}, {1: BEGINNING}]


def test_rows_that_were_not_committed_come_again() -> None:
    """An error of the batch went through: nobody said what became of its rows."""
    bench = Bench()
    bench.topic.stops = {1: 2, 2: 0}

    assert bench.read(commits=False) == [(1, 0), (1, 1)]
    assert bench.read() == [(1, 0), (1, 1)]
    assert bench.read() == []


def test_rows_of_a_task_that_was_skipped_come_again_and_those_of_others_do_not() -> None:
    bench = Bench()
    bench.topic.stops = {1: 2, 2: 2}

    bench.read(skipped={ONE})

    assert bench.read() == [(1, 0), (1, 1)]


def test_store_that_went_on_elsewhere_is_followed() -> None:
    """Another instance owned the task meanwhile, or an error lost what was committed last."""
    bench = Bench()
    bench.topic.stops = {1: 2, 2: 0}
    bench.read()
    bench.topic.stops = {1: 9, 2: 0}

    bench.tasks[ONE].source_offset = 7
    assert bench.read() == [(1, 7), (1, 8)]
    bench.tasks[ONE].source_offset = 8
    assert bench.read() == [(1, 8)]


def test_micro_batch_is_bounded_and_says_that_there_is_more() -> None:
    bench = Bench(most=3)
    bench.topic.stops = {1: 5, 2: 0}

    assert bench.read() == [(1, 0), (1, 1), (1, 2)]
    assert bench.more
    assert bench.read() == [(1, 3), (1, 4)]
    assert not bench.more


@pytest.mark.parametrize("goes_on", [False, True], ids=["fail", "continue"])
def test_input_that_was_deleted_fails_the_task_or_is_counted(goes_on: bool) -> None:
    bench = Bench(goes_on)
    bench.tasks[ONE].source_offset = 2
    bench.topic.starts, bench.topic.stops = {1: 5, 2: 0}, {1: 7, 2: 1}
    bench.topic.brings = False
    bench.read()
    bench.topic.event(1, NOT_THERE)
    bench.read()
    bench.topic.brings = True

    if goes_on:
        assert bench.read() == [(1, 5), (1, 6), (2, 0)]
        assert bench.lost.of_tasks == {ONE: 3}
        assert bench.read() == [], "it goes on behind them"
    else:
        assert bench.read() == [(2, 0)]
        assert isinstance(bench.errors[ONE], InputLostError)
        assert "in[1]: the offsets 2 to 4 (3 records at the most)" in str(bench.errors[ONE])


def test_end_that_fell_back_is_counted_once_and_what_is_written_there_is_left_to_the_active_step() -> None:
    bench = Bench(goes_on=True)
    bench.tasks[ONE].source_offset = 7
    bench.topic.stops = {1: 4, 2: 0}
    bench.read()
    bench.topic.event(1, NOT_THERE)
    bench.read()
    bench.topic.stops = {1: 6, 2: 0}

    assert bench.read() == [(1, 4), (1, 5)]
    bench.topic.stops = {1: 9, 2: 0}
    assert bench.read() == [(1, 6), (1, 7), (1, 8)]
    assert bench.tasks[ONE].source_offset == 9
    assert bench.lost.of_tasks == {ONE: 3}


def test_log_that_fell_back_and_has_grown_past_the_position_is_known_by_what_the_client_says() -> None:
    """The offset is in the log again, and is another record's."""
    bench = Bench()
    bench.tasks[ONE].source_offset = 7
    bench.topic.brings = False
    bench.topic.stops = {1: 9, 2: 0}
    bench.read()
    bench.topic.event(
        1,
        NOT_THERE,
        text="Partition log truncation detected at offset 7 (leader epoch 1): broker end offset is 4 (offset leader "
        "epoch 0). Reset to INVALID.: Local: Partition log truncation detected (broker 1)",
    )
    bench.read()

    assert isinstance(bench.errors[ONE], InputLostError)
    assert "in[1] ends at offset 4, and the task has processed the records before offset 7" in str(bench.errors[ONE])


def with_a_stage_that_begins(starts: int, stops: int) -> Bench:
    """Beside one that stands at offset 2 of a partition."""
    bench = Bench()
    bench.tasks[ONE].source_offset = 2
    bench.tasks[OTHER] = OpenTask()
    bench.topic.starts, bench.topic.stops = {1: starts, 2: 0}, {1: stops, 2: 0}
    return bench


def test_stage_that_begins_does_not_hide_what_another_of_its_topic_has_lost() -> None:
    """From wherever the log begins, a client says of no offset that it is gone."""
    bench = with_a_stage_that_begins(starts=5, stops=7)
    bench.topic.brings = False
    bench.read()

    assert bench.topic.consumers[0].assigned[0][1] == 2, "so the client finds that it is not there"
    bench.topic.event(1, NOT_THERE)
    bench.read()
    assert isinstance(bench.errors[ONE], InputLostError)


def test_stage_that_begins_beside_another_is_not_read_before_it_is_known_where_the_log_begins() -> None:
    bench = with_a_stage_that_begins(starts=1, stops=4)
    bench.topic.silent = True

    assert bench.read() == []
    bench.topic.silent = False
    assert bench.read() == [(1, 1), (1, 2), (1, 3)] * 2, "both stages get them"


def test_what_an_error_took_from_the_consumer_comes_again() -> None:
    bench = Bench()
    bench.topic.stops = {1: 2, 2: 0}
    bench.topic.error = MemoryError()

    with pytest.raises(MemoryError):
        bench.read()
    bench.topic.error = None
    assert bench.read() == [(1, 0), (1, 1)]


def test_position_that_is_there_after_all_is_read() -> None:
    bench = Bench()
    bench.topic.brings = False
    bench.topic.stops = {1: 1, 2: 0}
    bench.read()
    bench.topic.event(1, NOT_THERE)
    bench.read()
    bench.topic.brings = True

    assert bench.read() == [(1, 0)]
    assert not bench.errors


@pytest.mark.parametrize(
    ("code", "kind"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, AccessError), (KafkaError._BAD_MSG, TopicDamagedError)],
)
def test_what_somebody_has_to_see_to_stops_the_task_and_is_tried_by_another_consumer(
    code: int, kind: type[StatefulStreamsError]
) -> None:
    """A client says once that it was refused."""
    bench = Bench()
    bench.read()
    bench.topic.event(1, code)
    bench.topic.stops = {1: 1, 2: 1}
    bench.read()

    assert isinstance(bench.errors[ONE], kind)
    assert bench.topic.consumers[0].closed
    assert bench.read() == [(2, 0)], "the other task goes on"
    bench.tasks[ONE].state = TaskState.RUNNING
    assert bench.read() == [(1, 0)]
    assert len(bench.topic.consumers) == 2


def test_brokers_that_are_away_are_waited_for() -> None:
    bench = Bench()
    bench.read()
    bench.topic.event(-1, KafkaError._ALL_BROKERS_DOWN)
    bench.topic.event(1, KafkaError.UNKNOWN_TOPIC_OR_PART)

    bench.read()

    assert not bench.errors
    assert len(bench.topic.consumers) == 1


def test_records_behind_passing_trouble_of_a_partition_are_read_again() -> None:
    bench = Bench()
    bench.topic.stops = {1: 3, 2: 1}
    bench.topic.event(1, KafkaError.UNKNOWN)
    bench.topic.left_out = {1}

    assert bench.read() == [(2, 0)]
    assert bench.read() == [(1, 0), (1, 1), (1, 2)], "what the client has handed over is not what was processed"
    assert not bench.errors


def test_consumer_to_which_nothing_comes_although_the_log_grows_is_replaced() -> None:
    bench = Bench()
    bench.topic.brings = False
    bench.topic.stops = {1: 3, 2: 0}
    for _ in range(3):
        bench.read()
        bench.now += 6.0

    bench.topic.brings = True
    assert bench.read() == [(1, 0), (1, 1), (1, 2)]
    assert [consumer.closed for consumer in bench.topic.consumers] == [True, False]


def test_partition_that_stands_still_is_noticed_beside_one_that_goes_on() -> None:
    bench = Bench()
    bench.topic.stops = {1: 3, 2: 0}
    bench.read()
    stuck = bench.topic.consumers[0]
    for number in range(1, 5):
        bench.now += 6.0
        bench.topic.stops = {1: 3, 2: number}
        stuck.at[1] = 3
        bench.read()
    bench.topic.stops = {1: 5, 2: 4}
    came: list[tuple[int, int]] = []
    for _ in range(4):
        bench.now += 6.0
        stuck.at[1] = 5  # it says that it has read what it has not brought
        bench.topic.stops[2] += 1
        came += bench.read()

    assert stuck.closed
    assert [row for row in came if row[0] == 1] == [(1, 3), (1, 4)]


def test_consumer_at_the_end_of_a_log_is_left_alone() -> None:
    """Behind the last record lie markers, which no reader sees."""
    bench = Bench()
    bench.topic.brings = False
    bench.topic.stops = {1: 3, 2: 0}
    bench.read()
    bench.topic.event(1, EOF, offset=3)
    for _ in range(4):
        bench.read()
        bench.now += 6.0

    assert len(bench.topic.consumers) == 1


def test_consumer_that_fails_is_replaced() -> None:
    bench = Bench()
    bench.topic.stops = {1: 1, 2: 0}

    class Failing(MemoryConsumer):
        def read(self, most: int, timestamps: Collection[str] = ()) -> Columns:
            raise KafkaException(KafkaError(KafkaError._FATAL))

    bench.topic.open, working = (lambda: Failing(bench.topic)), bench.topic.open  # type: ignore[method-assign]
    bench.reader._open_consumer = bench.topic.open  # noqa: SLF001
    assert bench.read() == []
    bench.reader._open_consumer = working  # noqa: SLF001
    assert bench.read() == [(1, 0)]


def test_nothing_is_opened_where_nothing_is_read() -> None:
    bench = Bench()
    for task in bench.tasks.values():
        task.state = TaskState.FOLLOWING

    assert bench.read() == []
    assert bench.reader.ready is None
    assert not bench.topic.consumers


def test_partition_that_two_stages_read_is_read_once_from_where_the_first_of_them_stands() -> None:
    bench = Bench()
    bench.topic.stops = {1: 3, 2: 1}
    bench.tasks[ONE].source_offset = 2

    assert bench.read() == [(1, 2), (2, 0)]
    bench.tasks[OTHER] = OpenTask(1)
    bench.topic.stops = {1: 4, 2: 2}
    assert bench.read() == [(1, 1), (1, 2), (1, 3), (2, 1), (1, 1), (1, 2), (1, 3)], "each stage gets its partitions"
    assert bench.topic.consumers[0].assigned[1:] == [{1: 1}]
    assert (bench.tasks[ONE].source_offset, bench.tasks[OTHER].source_offset) == (4, 4)

    bench.tasks[ONE].state = TaskState.FOLLOWING
    bench.topic.stops = {1: 5, 2: 3}
    assert bench.read() == [(2, 2), (1, 4)]
    assert len(bench.topic.consumers[0].assigned) == 2, "who stays reads on"


def test_rows_of_a_stage_that_were_skipped_come_again_to_both() -> None:
    bench = Bench()
    del bench.tasks[TWO]
    bench.tasks[OTHER] = OpenTask()
    bench.topic.stops = {1: 2, 2: 0}

    bench.read(skipped={OTHER})
    assert (bench.tasks[ONE].source_offset, bench.tasks[OTHER].source_offset) == (2, None)
    assert bench.read() == [(1, 0), (1, 1)] * 2, "what the one has had is dropped by its active step"
    assert (bench.tasks[ONE].source_offset, bench.tasks[OTHER].source_offset) == (2, 2)
    assert bench.read() == []


def test_input_that_was_deleted_is_lost_to_each_that_stands_before_it() -> None:
    bench = Bench()
    del bench.tasks[TWO]
    bench.tasks |= {ONE: OpenTask(5), OTHER: OpenTask(2)}
    bench.topic.starts, bench.topic.stops, bench.topic.brings = {1: 5, 2: 0}, {1: 7, 2: 0}, False
    bench.read()
    bench.topic.event(1, NOT_THERE)
    bench.read()
    bench.topic.brings = True

    assert bench.read() == [(1, 5), (1, 6)]
    assert bench.errors.keys() == {OTHER}


def waiting() -> tuple[Bench, WaitingReader]:
    bench = Bench(kind=WaitingReader)
    assert isinstance(bench.reader, WaitingReader)
    return bench, bench.reader


def test_what_waits_for_a_table_is_held_until_it_is_let_through() -> None:
    bench, reader = waiting()
    bench.topic.stops = {1: 2, 2: 0}
    assert (reader.held, reader.ready) == (False, None)

    assert bench.read() == []
    assert (reader.held, reader.ready) == (True, None), "what comes behind it wakes nobody"
    bench.topic.stops = {1: 3, 2: 0}
    assert bench.read() == []

    reader.let_through()
    assert bench.read() == [(1, 0), (1, 1)]
    assert bench.read() == []
    assert reader.held, "the next rows wait again"
    reader.let_through()
    assert bench.read() == [(1, 2)]
    assert (bench.read(), reader.held, reader.ready) == ([], False, 0)
    reader.let_through()
    bench.topic.stops = {1: 4, 2: 0}
    assert (bench.read(), reader.held) == ([], True), "nobody had asked for that"


def test_what_was_let_through_while_time_stands_still_comes_again() -> None:
    bench, reader = waiting()
    bench.topic.stops = {1: 2, 2: 0}
    bench.read()
    tasks, bench.tasks = bench.tasks, {}
    reader.let_through()

    assert bench.read() == []
    bench.tasks |= tasks
    assert bench.read() == []
    reader.let_through()
    assert bench.read() == [(1, 0), (1, 1)]
