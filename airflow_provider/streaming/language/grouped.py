"""A stream whose rows are grouped, waiting for what is to be kept of each group."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, overload

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_name
from airflow_provider.streaming.aggregates.accumulator import Function
from airflow_provider.streaming.aggregates.aggregate import Aggregate, Aggregation
from airflow_provider.streaming.aggregates.drop_duplicates import DropDuplicates
from airflow_provider.streaming.aggregates.session_aggregate import SessionAggregation
from airflow_provider.streaming.aggregates.window_process import RowsOfWindow, WindowCalls, WindowFunction
from airflow_provider.streaming.aggregates.windowed_aggregate import (
    WINDOW,
    AggregationInWindows,
    Emit,
    WindowedAggregation,
)
from airflow_provider.streaming.joins.newest_row import NewestRow
from airflow_provider.streaming.language.column_check import (
    Columns,
    check_aggregate,
    check_grouping,
    check_process_columns,
    check_time_put_out,
    columns_after,
    find_column,
)
from airflow_provider.streaming.language.join import check_stream_time, refuse_missing_time
from airflow_provider.streaming.language.result import NamedOutput, Result
from airflow_provider.streaming.language.table import Table
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.process import Process, ProcessFunction
from airflow_provider.streaming.operations.process_state import KeptStore
from airflow_provider.streaming.operations.stateful_process import (
    RowFunction,
    StatefulProcess,
    TimerFunction,
    check_time,
)
from airflow_provider.streaming.terms.argument_check import check_kind, check_number, duration_ms, given_text
from airflow_provider.streaming.terms.event_time import OF_RECORD, EventTime
from airflow_provider.streaming.terms.sql_type import RECORD, check_schema
from airflow_provider.streaming.terms.steps import CompositeKey, Step
from airflow_provider.streaming.terms.windows import SessionWindow, Window

if TYPE_CHECKING:
    from airflow_provider.streaming.language.stream import Stream

AGGREGATES: Final = (
    'aggregates one by one, such as F.sum("amount").alias("spent"), with "from airflow_provider.streaming import '
    'functions as F", not those of pyspark'
)
"""What `aggregate()` takes, in words."""

_IN_WINDOW: Final = ("key", "rows", "window")
_ROWS_OF_WINDOW: Final = 1_000

_WINDOW_COLUMN: Final = f"{WINDOW} STRUCT<start: TIMESTAMP, end: TIMESTAMP>"


@dataclass(frozen=True)
class GroupedStream:
    """A stream and what it is grouped by; `Stream.group_by` makes it.

    Args:
        trust_partitioning: whether it is taken that all records of a group are in one partition of the topic.
        partitions: of the internal topic; None for as many as the stream's topic has.
        window: of event time, by which they are grouped too; None for none.
    """

    stream: Stream
    by: tuple[str, ...]
    _: KW_ONLY
    window: Window | SessionWindow | None = None
    trust_partitioning: bool = False
    partitions: int | None = None

    @classmethod
    def of(
        cls,
        stream: Stream,
        by: Sequence[object],
        trust_partitioning: object,
        partitions: object,
        method: str = "group_by()",
    ) -> GroupedStream:
        """See `Stream.group_by`; the method's name is for errors."""
        names = [name for name in by if isinstance(name, str)]
        windows = [one for one in by if isinstance(one, (Window, SessionWindow))]
        windowed = method == "group_by()"
        if not names and windowed and len(windows) == len(by) == 1:
            raise ConfigurationError(
                f"{method} got {windows[0].text} and no column: state is kept by a key. For windows over all records "
                'make one that is the same for each, with_column("all", "\'all\'"), and name it before the window.'
            )
        if not names or len(windows) > int(windowed) or len(names) + len(windows) != len(by):
            given = ", ".join(one.text if isinstance(one, (Window, SessionWindow)) else given_text(one) for one in by)
            at_most = ", and one window(...) or session_window(...) at the most" if windowed else ""
            raise ConfigurationError(
                f"{method} got {given or 'nothing'}: give names of columns{at_most}. What is to be computed becomes a "
                "column with with_column() or select() first."
            )
        if len({name.lower() for name in names}) != len(names):
            raise ConfigurationError(f"{method} got {', '.join(map(repr, names))}: give each column once.")
        check_kind(f"{method} got trust_partitioning=", trust_partitioning, bool, "True or False")
        check_number(f"{method} got partitions", partitions, "partitions", whole=True, none="those of the source")
        columns = stream.columns
        if columns is not None:
            for name in names:
                check_grouping(columns, name, method)
        if windows:
            check_stream_time(stream)
            refuse_missing_time(f"{method} with {windows[0].text}", stream)
            _check_window(windows[0], stream.event_time)
        if stream.is_union and trust_partitioning is True:
            raise ConfigurationError(
                "group_by() got trust_partitioning=True behind union(): the records of a group are in partitions of "
                "several topics. Leave it out, so that they go through an internal topic."
            )
        grouped = cls(
            stream,
            tuple(names),
            trust_partitioning=trust_partitioning is True,
            partitions=partitions if isinstance(partitions, int) else None,
            window=windows[0] if windows else None,
        )
        if partitions is not None and not grouped.repartitions:
            raise ConfigurationError(
                f"{method} got partitions={partitions!r}, and needs no internal topic, because the records are taken "
                f"from the partitions of {stream.topic!r} as they are: leave it out."
            )
        return grouped

    @property
    def key(self) -> str:
        """The name of the key's column."""
        return ",".join(self.by)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Those of the stream, and the one that makes one key of several columns."""
        return self.stream.steps if len(self.by) == 1 else (*self.stream.steps, CompositeKey(self.key, self.by))

    @property
    def columns(self) -> Columns | None:
        """Of its rows, the key among them; None where only Spark understands the schema."""
        return self.stream.columns_after(self.steps)

    @property
    def by_record_key(self) -> bool:
        """Whether they are grouped by what is the records' key."""
        key = self.stream.key
        return key is not None and len(self.by) == 1 and self.by[0].lower() == key.lower()

    @property
    def repartitions(self) -> bool:
        """Whether the rows go through an internal topic: the records of a group may be in several partitions."""
        return self.stream.is_union or not (self.by_record_key or self.trust_partitioning)

    @overload
    def aggregate(
        self, *aggregates: Aggregate, name: str | None = None, combine: bool = True, emit: Literal["update"] = "update"
    ) -> Table: ...

    @overload
    def aggregate(
        self, *aggregates: Aggregate, name: str | None = None, combine: bool = True, emit: Literal["close"]
    ) -> Stream: ...

    def aggregate(
        self, *aggregates: Aggregate, name: str | None = None, combine: bool = True, emit: Emit = "update"
    ) -> Stream | Table:
        """Keep aggregates by key, and window where there are.

        They are a table, of which the newest row of each key counts, or with ``emit="close"`` a stream. A row has the
        key's columns, ``window`` where there is one, and the aggregates.

        Args:
            aggregates: such as ``F.count().alias("orders")``.
            name: of the store and of the internal topic, if there is one; default the sink's topic.
            combine: where the rows go through an internal topic, whether they are aggregated before as far as they
                are of one micro-batch of one partition, so that a record for each of its groups is written instead of
                one for each row. Aggregates by window are not.
            emit: ``"update"`` emits what changed, once per key, window and micro-batch; ``"close"`` emits each key and
                window exactly once, when the window is over: its event time is the window's, as Spark's
                ``window_time`` has it, the last millisecond of the window.

        Raises:
            ConfigurationError: there is none, two have one name, a column does not exist or cannot be kept, or the
                order that ``first`` and ``last`` need is not kept, because the rows go through an internal topic.
        """
        for aggregate in aggregates:
            check_kind("aggregate() got ", aggregate, Aggregate, AGGREGATES)
        check_kind("aggregate() got combine=", combine, bool, "True or False")
        ordered = [aggregate for aggregate in aggregates if aggregate.function.by_order]
        if ordered and self.repartitions:
            raise ConfigurationError(
                f"aggregate() got {ordered[0].name!r}, which depends on the order of the records, and grouping by "
                f"{self.key!r} brings those of several partitions of {self.stream.topic!r} together in no certain "
                "order: take min() or max(), or give first() and last() by=, a column that says the order; or, if the "
                f"records' key is {self.by[0]!r}, say stream({self.stream.topic!r}, key={self.by[0]!r})."
            )
        if emit not in get_args(Emit):
            raise ConfigurationError(f"aggregate() got emit={emit!r}: give {' or '.join(map(repr, get_args(Emit)))}.")
        if (columns := self.columns) is not None:
            for aggregate in aggregates:
                check_aggregate(aggregate, self.by, columns)
        mergeable = all(aggregate.mergeable for aggregate in aggregates)
        combine = combine and self.repartitions and self.window is None and mergeable
        made = self.aggregated(self._aggregation(aggregates, emit), name, combine=combine)
        result = dataclasses.replace(made, grouped=self._with_filters(aggregates))
        if emit == "update":
            return Table(result.text, key=self.key if self.window is None else f"{self.key},{WINDOW}", origin=result)
        return self._closed(result)

    def aggregated(self, operation: Aggregation, name: str | None, *, combine: bool = False) -> Result:
        """What an operation keeps of each group; see `aggregate`."""
        window = {} if self.window is None else columns_after(_WINDOW_COLUMN, ())
        columns = self.with_key({**(window or {}), **dict.fromkeys(operation.result_names)})
        return self._result("aggregate", operation, columns, name, combine=combine)

    def newest(self, name: str | None) -> Table:
        """See `Stream.to_table`."""
        stream = self.stream
        columns, time = stream.written_columns("to_table()"), stream.event_time
        check_stream_time(stream)
        in_order = time is None and any(one.origin for one in stream.branches)
        newest = NewestRow(columns=columns, time=None if in_order else (time or OF_RECORD).text)
        result = self._result("to_table", newest, stream.columns, name)
        return Table(result.text, key=self.key, origin=result)

    def process(
        self,
        function: ProcessFunction | RowFunction | WindowFunction,
        columns: Sequence[str] | None = None,
        timeout_s: float | None = None,
        version: int = 1,
        name: str | None = None,
        schema: str | None = None,
        stores: Sequence[KeptStore] = (),
        on_timer: TimerFunction | None = None,
        on_clock: TimerFunction | None = None,
        outputs: Mapping[str, str] | None = None,
        event_time: str | None = None,
        limit: int | None = None,
    ) -> Stream:
        """Call a Python function once per key and micro-batch; with stores or timers, once per row.

        Where the rows go through an internal topic, those of several partitions come in no certain order.

        With a window it is called once for each key and window, with all rows of it, when the window is over; the
        event time of what it returns is the window's, as of ``aggregate(emit="close")``.

        Args:
            function: ``function(key, rows, state)``; see `operations.process.ProcessFunction`. The key of several
                columns is the text of their JSON array. With a window ``function(key, rows, window)``, which has
                ``window.start`` and ``window.end``.
            columns: the columns that its rows hold, each once; they have to be named. With a window the rows are in
                ascending order of them, null first.
            timeout_s: how long a call may take, in seconds; then it counts as raised. None for no limit.
            version: of the state that the function keeps.
            name: of the store and of the internal topic, if there is one; default the sink's topic.
            schema: of the rows that it returns, in Spark DDL, without the key's columns: what follows needs to know
                them. Default unknown, and nothing can follow but ``sink(topic)``.
            stores: what is kept of each key beside its one value: ``value_state("last")``, ``list_state(...)``,
                ``map_state(...)``; the function has it as ``state.last``.
            on_timer: ``function(key, time_ms, state)``, called when the watermark reaches a time that was set with
                ``state.timers.at(...)``; it returns rows, too. It needs a stream with an event time.
            on_clock: the same for ``state.clock.at(...)``, by the clock of the instance, also where nothing comes.
            outputs: by name the schema, as of `schema`, of what the functions put out beside: a row of one is returned
                as a pair, ``("refunds", {"amount": 1.0})``, has no other columns, and values of their types. It is the
                stream ``.output("refunds")`` of what this returns. What nobody reads is left.
            event_time: the column with the event time of what is put out, in each schema that has it: epoch ms as a
                BIGINT, or a TIMESTAMP; the others have none. It needs a stream with an event time, whose late rows are
                left out and counted. A row that is put out for a time before the watermark counts as raised.
            limit: with a window: how many rows of a key it may have, default 1,000. A record beyond it is a record
                error. They are one record of the changelog, so no larger than its ``max.message.bytes``.

        Raises:
            ConfigurationError: the function is none, a schema is, no schema has the event time's column, or a column
                does not exist or cannot be read by Python; or an argument does not go with a window, or without one.
        """
        check_kind("process() got schema=", schema, (str, type(None)), "one text")
        check_schema(schema, "process()")
        if self.window is not None:
            process = Process.of(function, columns, timeout_s, 1, self._parts, schema, None, _IN_WINDOW)
            others = {
                "stores": stores, "on_timer": on_timer, "on_clock": on_clock, "outputs": outputs,
                "event_time": event_time, "version": version != 1,
            }  # fmt: skip
            return self._processed_windows(process, others, limit, name)
        if limit is not None:
            raise ConfigurationError(
                f"process() got limit={limit!r} and no window, whose rows it is for: what a function keeps is its own."
            )
        operation = Process.of(function, columns, timeout_s, version, self._parts, schema, outputs)
        if stores or on_timer is not None or on_clock is not None or event_time is not None:
            check_kind("process() got event_time=", event_time, (str, type(None)), "the name of a column")
            operation = StatefulProcess.extended(operation, stores, on_timer, on_clock, event_time)
            if operation.uses_time:
                check_stream_time(self.stream)
                refuse_missing_time("process() with timers, a ttl or an event time", self.stream)
            check_time(operation, has_time=self.stream.event_time is not None)
        if (known := self.columns) is not None:
            check_process_columns(known, operation.columns)
        columns_made = None if schema is None else self.with_key(columns_after(schema, ()) or {})
        result = self._result("process", operation, columns_made, name)
        if event_time is not None and self.stream.event_time is not None:
            check_time_put_out(event_time, self.by, [schema, *operation.outputs.values()])
            result = dataclasses.replace(result, time=EventTime(event_time, self.stream.event_time.delay_ms))
        return self._stream(result, result.time_among(columns_made))

    def _processed_windows(
        self, process: Process, others: Mapping[str, object], limit: int | None, name: str | None
    ) -> Stream:
        """See `process`."""
        if given := [argument for argument, value in others.items() if value]:
            raise ConfigurationError(
                f"process() in windows got {given[0]}=: its function is called once, with all rows of a window, so it "
                "keeps nothing between calls, and what it returns has the window's time. Leave it out, or group_by() "
                "without the window."
            )
        check_number("process() got limit", limit, "rows of a key and window", whole=True, none=f"{_ROWS_OF_WINDOW:,}")
        columns, schema = process.columns, None if process.schema is None else columns_after(process.schema, ())
        if (known := self.columns) is not None:
            check_process_columns(known, columns)
        if not columns or WINDOW in (schema or {}):
            raise ConfigurationError(
                f"process() in windows got columns={list(columns)} and schema={process.schema!r}: give at least one "
                f"column, and none named {WINDOW!r}, because the output has the window there."
            )
        rows = RowsOfWindow(columns, limit or _ROWS_OF_WINDOW)
        aggregate = Aggregate(name=rows.name, function=Function.STATE, aggregator=rows, columns=columns)
        kept = self._aggregation((aggregate,), "close")
        assert isinstance(kept, AggregationInWindows)
        function: Any = process.function  # it was looked at as one of windows
        calls = WindowCalls(function, process.timeout_s, self._parts, process.schema)
        window = columns_after(_WINDOW_COLUMN, ()) or {}
        made = None if process.schema is None else self.with_key({**window, **(schema or {})})
        result = self._result("process", dataclasses.replace(kept, calls=calls), made, name)
        return self._closed(result)

    def _closed(self, result: Result) -> Stream:
        """A stream of windows that are over, in their time."""
        time = self.stream.event_time
        return self._stream(result, None if time is None else EventTime(WINDOW, time.delay_ms))

    def further(self, output: NamedOutput) -> Stream:
        """See `Stream.output`."""
        return self._stream(output, output.of.time_among(output.columns))

    def apply(self, operation: Operation, *, name: str | None = None) -> Stream:
        """Do with the rows of each key what an operation of your own says; what it puts out goes to a sink.

        Args:
            name: as of `process`.

        Raises:
            ConfigurationError: it is no operation, names a column that there is not, or is behind a window or several
                columns, of which it would not be told.
        """
        check_kind("apply() got ", operation, Operation, "an Operation, such as MyOperation(...)")
        if self.window is not None or len(self.by) > 1:
            raise ConfigurationError(
                "apply() takes the rows of a key of one column, without a window: its operation would be told of "
                "neither. Make one column of several with with_column(); for windows use aggregate() or process()."
            )
        if (known := self.columns) is not None:
            for column in operation.columns:
                find_column("apply()", column, known)
        return self._stream(self._result("apply", operation, None, name), None)

    def drop_duplicates(self, *, within: str, name: str | None = None) -> Stream:
        """See `Stream.drop_duplicates`."""
        refuse_missing_time("drop_duplicates()", self.stream)
        columns, time = self.stream.written_columns("drop_duplicates()"), self.stream.event_time
        within_ms = duration_ms("drop_duplicates(within=...)", within)
        if time is None:
            raise ConfigurationError(
                "drop_duplicates() needs an event time, by which it forgets: name it, and say for how long late "
                "records are waited for, with event_time='at', watermark='10 minutes' where the source is named."
            )
        check_stream_time(self.stream)
        operation = DropDuplicates(within_ms=within_ms, columns=columns, event_time=time)
        known = self.stream.columns
        result = self._result("drop_duplicates", operation, known, name)
        # The record's own time is not among the columns.
        return self._stream(result, None if time.of_record else time)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse what comes before or after, with what to do."""
            if name in ("agg", "avg", "count", "max", "mean", "min", "sum"):
                raise ConfigurationError(
                    f"{name}() was called on a stream that is grouped, as on a DataFrame: write aggregate(F.count(), "
                    "...) with the functions of airflow_provider.streaming.functions."
                )
            if name in ("select", "filter", "with_column", "group_by", "sink", "union", "join"):
                raise ConfigurationError(
                    f"{name}() was called on a stream that is grouped: call aggregate() or process() next; steps come "
                    "before group_by(), sink() behind the operation."
                )
            raise AttributeError(name)

    @property
    def _parts(self) -> tuple[str, ...]:
        """The columns of a key of several, for the output."""
        return self.by if len(self.by) > 1 else ()

    def _aggregation(self, aggregates: tuple[Aggregate, ...], emit: Emit) -> Aggregation:
        """By windows where there are some."""
        window, time = self.window, self.stream.event_time
        if window is None or time is None:
            if emit != "update":
                raise ConfigurationError(
                    f"aggregate() got emit={emit!r} without windows: a state that has no window never closes. Group by "
                    'window("at", "1 hour") too, or leave emit out.'
                )
            return Aggregation(aggregates, by=self._parts)
        apart = [aggregate for aggregate in aggregates if not aggregate.mergeable]
        if apart and isinstance(window, SessionWindow):
            raise ConfigurationError(
                f"aggregate() names {apart[0].name!r} in a session: where two sessions become one, nobody knows "
                "which of their rows came first, or how to merge() their states. Give first() and last() by=, an "
                "Aggregator a merge(); or use a window() of one size."
            )
        if WINDOW in (self.key, *self.by, *(aggregate.name for aggregate in aggregates)):
            raise ConfigurationError(
                f"A job with windows cannot have a key or a result named {WINDOW!r}: the output has the window there. "
                "Name a result otherwise with alias(), a key with with_column()."
            )
        delay_ms, by = time.delay_ms, self._parts
        if isinstance(window, Window):
            return WindowedAggregation(aggregates=aggregates, by=by, windows=window, delay_ms=delay_ms, emit=emit)
        return SessionAggregation(aggregates=aggregates, by=by, windows=window, delay_ms=delay_ms, emit=emit)

    def _with_filters(self, aggregates: Sequence[Aggregate]) -> GroupedStream:
        """The same with a column for the condition of each aggregate that has one, whether a row counts."""
        stream = self.stream
        for where, aggregate in {aggregate.where: aggregate for aggregate in aggregates}.items():
            if where is None or aggregate.filter is None:
                continue
            try:
                stream = stream.with_column(where, aggregate.filter)
            except ConfigurationError as error:
                raise ConfigurationError(f"aggregate(), in {aggregate.name!r}, with filter=: {error}") from None
        return dataclasses.replace(self, stream=stream)

    def with_key(self, columns: Columns) -> Columns:
        """The columns of a result's rows: those of the key first, that of the record last."""
        known = self.stream.columns
        key = {name: None if known is None else find_column("group_by()", name, known) for name in self.by}
        record = (columns_after(None, ()) or {})[RECORD]
        return {**key, **{name: kind for name, kind in columns.items() if name != RECORD}, RECORD: record}

    def _stream(self, result: Result | NamedOutput, time: EventTime | None) -> Stream:
        return dataclasses.replace(
            self.stream,
            topic=result.text,
            schema=None,
            # A window's record has it in its key, too.
            key=self.by[0] if len(self.by) == 1 and self.window is None else None,
            steps=(),
            declared_time=None if time is None else dataclasses.replace(time, idle_ms=None),
            origin=result,
            others=(),
        )

    def _result(
        self, word: str, operation: Operation, columns: Columns | None, name: str | None, combine: bool = False
    ) -> Result:
        method = f"{word}()"
        if name is not None:
            check_kind(f"{method} got name=", name, str, 'one text, such as name="totals"')
            check_name(f"{method} name", name)
        return Result(self, operation, word=word, columns=columns, name=name, combine=combine)


def _check_window(window: Window | SessionWindow, event_time: EventTime | None) -> None:
    if event_time is None and window.column == WINDOW:
        raise ConfigurationError(
            f"group_by() got {window.text}, and what comes of windows that may still change has no event time: close "
            'them first, with aggregate(..., emit="close").'
        )
    if event_time is None:
        raise ConfigurationError(
            f"group_by() got {window.text}, and the source has no event time: name it, and say for how long late "
            f"records are waited for, with event_time={window.column!r}, watermark='10 minutes' where the source is "
            "named."
        )
    if window.column.lower() != event_time.column.lower():
        raise ConfigurationError(
            f"group_by() got {window.text}, and the source's event time is {event_time.column!r}: a task has one time, "
            "by which its windows close. Name the same column in both."
        )
