"""From what a user wrote to stages: which there are, what each reads, does and writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_name, repartition_topic
from airflow_provider.streaming.joins.join_operation import JoinSide
from airflow_provider.streaming.joins.join_rows import LEFT, RIGHT
from airflow_provider.streaming.language.join import ForeignKeyJoin, Join
from airflow_provider.streaming.language.result import KeptTable, NamedOutput, Result
from airflow_provider.streaming.language.sink import KeyedRows, Sink
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.streaming.language.table import Table
from airflow_provider.streaming.operations.repartition import Repartition
from airflow_provider.streaming.planner.job_check import check_sinks
from airflow_provider.streaming.planner.stage_plan import NullKeys, Spread, StagePlan
from airflow_provider.streaming.terms.event_time import EVENT_MS, OF_RECORD, EventTime


def plan_stages(application_id: str, sinks: Sequence[Sink | Stream | Table]) -> tuple[StagePlan, ...]:
    """The stages of a job, each before those that read what it writes.

    Every sink has a way of its own from its topics. An operation is one stage, or two with an internal topic between
    them where the grouping column is not the records' key; a join is a stage for each side and one behind an internal
    topic; what is done with what these make is a stage behind one more internal topic. What several use, in one
    variable, is made once, where the first one needs it. They are numbered in the order of the sinks, so that one that
    is added at the end changes no other's number.

    Args:
        application_id: prefixes the internal topics.
        sinks: at least one; what an operation makes stands for state that nothing is written of.

    Raises:
        ConfigurationError: two sinks have one topic, two branches have one name, a sink's topic cannot be the name of a
            store, or a result without sink has no name.
    """
    check_sinks(application_id, [sink.topic for sink in sinks if isinstance(sink, Sink)])
    planner = _Planner(application_id)
    sink_of = dict[int, str]()
    for sink in sinks:
        planner.add_sink(sink)
        for stage in planner.stages[len(sink_of) :]:
            sink_of[stage.number] = sink.topic if isinstance(sink, Sink) else stage.name
    _refuse_one_name(planner.stages, sink_of)
    _refuse_one_topic(planner.stages)
    return tuple(planner.stages)


class _Source(TypedDict):
    """What a stage reads; see `StagePlan`."""

    source_topic: str
    internal: bool
    schema: str | None
    changes: NotRequired[bool]


@dataclass
class _Planner:
    """The stages so far.

    Args:
        made: by join or result, by its identity, the number of the stage that makes its rows.
    """

    application_id: str
    stages: list[StagePlan] = dataclasses.field(default_factory=list)
    made: dict[int, int] = dataclasses.field(default_factory=dict)

    def _add(self, stage: StagePlan) -> None:
        """A stage behind the others."""
        self.stages.append(dataclasses.replace(stage, number=len(self.stages)))

    def add_sink(self, sink: Sink | Stream | Table) -> None:
        """The stages of one sink, behind the others."""
        topic = sink.topic if isinstance(sink, Sink) else None
        of = sink.of if isinstance(sink, Sink) else sink
        if isinstance(of, KeyedRows):
            self._add_rows(of, str(topic))
        else:
            assert of.origin is not None
            self._add_made(of.origin, _store_name(of.origin, topic), topic)

    def _add_made(
        self, origin: Join | Result | NamedOutput | KeptTable, name: str, topic: str | None, *, feeds: bool = False
    ) -> None:
        """The stages of what makes rows, which write them into a topic.

        One that another branch uses, too, is there already, and writes into one more topic.

        Args:
            feeds: whether that is an internal topic.
        """
        if isinstance(origin, NamedOutput):
            self._add_made(origin.of, name, None)
            at = self.made[id(origin.of)]
            assert topic is not None, "without a sink it is refused"
            named = {**self.stages[at].named_outputs, topic: origin.output}
            self.stages[at] = dataclasses.replace(self.stages[at], named_outputs=named)
            return
        if (made := self.made.get(id(origin))) is None:
            if isinstance(origin, ForeignKeyJoin):
                self._add_foreign_join(origin, name, topic, feeds=feeds)
            elif isinstance(origin, Join):
                self._add_join(origin, name, topic, feeds=feeds)
            elif isinstance(origin, KeptTable):
                self._add_table(origin, name, topic, feeds=feeds)
            else:
                self._add_result(origin, name, topic)
            self.made[id(origin)] = len(self.stages) - 1
        elif topic is not None:
            stage = self.stages[made]
            if stage.output_topic is None:
                self.stages[made] = dataclasses.replace(stage, output_topic=topic)
            else:
                self.stages[made] = dataclasses.replace(stage, further_outputs=(*stage.further_outputs, topic))

    def _add_rows(self, rows: KeyedRows, topic: str) -> None:
        stream = rows.stream
        for number, branch in enumerate(stream.branches):
            name = f"{topic}{_suffix(number)}"
            source = self._source(branch, name)
            self._add(
                StagePlan(
                    **source,
                    name=name,
                    steps=branch.steps,
                    key=rows.key,
                    operation=Repartition(rows.columns),
                    store=None,
                    output_topic=topic,
                    rekeys=source["internal"],
                    branch=number,
                    trust_partitioning=True,
                )
            )

    def _add_result(self, result: Result, name: str, topic: str | None) -> None:
        grouped, stream = result.grouped, result.grouped.stream
        if not grouped.repartitions:
            source = self._source(stream, name)
            self._add(
                StagePlan(
                    **source,
                    name=name,
                    steps=grouped.steps,
                    key=grouped.key,
                    trust_partitioning=grouped.trust_partitioning,
                    operation=result.operation,
                    event_time=result.event_time,
                    store=name,
                    output_topic=topic,
                    rekeys=source["internal"] and not grouped.by_record_key,
                )
            )
            return
        before, behind = result.halves
        between = repartition_topic(self.application_id, name)
        for number, branch in enumerate(stream.branches):
            source = self._source(branch, f"{name}{_suffix(number)}")
            self._add(
                StagePlan(
                    **source,
                    name=f"{name}-repartition{_suffix(number)}",
                    # Those of `group_by()` come behind each stream's own.
                    steps=(*branch.steps, *result.steps_before[len(stream.steps) :]),
                    key=grouped.key,
                    operation=before,
                    event_time=result.event_time,
                    store=None,
                    output_topic=between,
                    output_partitions=grouped.partitions,
                    rekeys=source["internal"],
                    feeds=True,
                    branch=number,
                    trust_partitioning=True,
                )
            )
        self._add(
            StagePlan(
                name=name,
                source_topic=between,
                internal=True,
                key=grouped.key,
                operation=behind,
                event_time=result.time_behind,
                store=name,
                output_topic=topic,
                trust_partitioning=True,
            )
        )

    def _add_table(self, kept: KeptTable, name: str, topic: str | None, *, feeds: bool) -> None:
        """The stage that keeps a table's rows.

        Args:
            feeds: as of `_add_made`.
        """
        table, source = kept.table, self._source(kept.table, name)
        self._add(
            StagePlan(
                **source,
                name=name,
                steps=table.steps,
                key=table.key,
                operation=kept.operation,
                event_time=table.event_time if kept.operation.needs_time else None,
                store=name,
                output_topic=topic,
                output_partitions=kept.partitions,
                feeds=feeds,
                table=True,
            )
        )

    def _add_join(self, join: Join, name: str, topic: str | None, *, feeds: bool) -> None:
        """The stages of a join: one that writes the rows of each side into an internal topic, and one that reads that.

        Args:
            feeds: as of `_add_made`.
        """
        between = repartition_topic(self.application_id, name)
        for side, word in ((LEFT, "left"), (RIGHT, "right")):
            of = join.right if side else join.left
            branches: Sequence[Stream | Table] = of.branches
            for number, branch in enumerate(branches):
                stage_name = f"{name}-{word}{_suffix(number)}"
                source = self._source(branch, stage_name)
                self._add_side(stage_name, source, join, side, branch, number, between)
        self._add_both_sides(join, name, between, topic, feeds=feeds)

    def _add_foreign_join(self, join: ForeignKeyJoin, name: str, topic: str | None, *, feeds: bool) -> None:
        """The stages of a join on a foreign key: by the left key, by the foreign key, and by the left key again.

        Args:
            feeds: as of `_add_made`.
        """
        between, answers = (repartition_topic(self.application_id, made) for made in (name, f"{name}-answers"))
        self._add_table(join.changes, f"{name}-left", between, feeds=True)
        source = self._source(join.right, f"{name}-right")
        self._add_side(f"{name}-right", source, join, RIGHT, join.right, 0, between)
        self._add_both_sides(join, f"{name}-foreign", between, answers, feeds=True)
        self._add(
            StagePlan(
                name=name,
                source_topic=answers,
                internal=True,
                key=join.changes.table.key,
                operation=join.answers,
                store=name,
                output_topic=topic,
                feeds=feeds,
                trust_partitioning=True,
            )
        )

    def _add_both_sides(self, join: Join, name: str, between: str, topic: str | None, *, feeds: bool) -> None:
        """The stage that brings the rows of both sides together.

        Args:
            between: the topic with the rows.
            feeds: as of `_add_made`.
        """
        self._add(
            StagePlan(
                name=name,
                source_topic=between,
                internal=True,
                key=join.on,
                operation=join.operation,
                # Rows bring their times with them.
                event_time=EventTime(EVENT_MS, join.operation.delay_ms),
                store=name,
                output_topic=topic,
                feeds=feeds,
                sides=(join.left.topic, join.right.topic),
                trust_partitioning=True,
            )
        )

    def _add_side(
        self, name: str, source: _Source, join: Join, side: int, branch: Stream | Table, at: int, topic: str
    ) -> None:
        joined, is_table = join.operation.joined, isinstance(branch, Table)
        event_time = branch.event_time or OF_RECORD
        others = joined.right if side else joined.left
        self._add(
            StagePlan(
                **source,
                name=name,
                steps=branch.steps,
                key=join.on,
                operation=JoinSide(
                    side=side,
                    on=join.on,
                    others=others,
                    table=is_table,
                    time=branch.time if isinstance(branch, Table) else None,
                    behind=join.operation if join.operation.timed else None,
                ),
                event_time=event_time,
                store=None,
                output_topic=topic,
                output_partitions=join.partitions,
                rekeys=source["internal"],
                feeds=True,
                branch=at,
                table=is_table,
                tells_time=not isinstance(branch, Table) or branch.watermarked,
                null_keys="refuse" if is_table else _null_keys(join, side),
                spread=_spread(join, side),
                trust_partitioning=True,
            )
        )

    def _source(self, branch: Stream | Table, name: str) -> _Source:
        """What a stage reads; where others make that, their stages come first."""
        origin = branch.origin
        if origin is None:
            return {"source_topic": branch.topic, "internal": False, "schema": branch.schema}
        if isinstance(origin, Join):
            word, made = "join", "joined"
        else:
            word = made = origin.word.replace("_", "-")
        store, rows = origin.name or f"{name}-{word}", f"{name}-{made}"
        # The topic of the store's name is the one that the origin itself may read.
        topic = repartition_topic(self.application_id, f"{rows}-rows" if rows == store else rows)
        self._add_made(origin, store, topic, feeds=True)
        changes = isinstance(branch, Stream) and branch.of_changes
        return {"source_topic": topic, "internal": True, "schema": None, "changes": changes}


def _null_keys(join: Join, side: int) -> NullKeys:
    """What becomes of a stream's rows with a null key, which have no partner."""
    return "keep" if join.how == "outer" or (join.how == "left" and side == LEFT) else "drop"


def _spread(join: Join, side: int) -> Spread:
    """Where a table is whole in each task, rows of the stream can stay in the order and the shares that they have."""
    if not join.operation.broadcast:
        return "key"
    return "all" if side else "task"


def _suffix(number: int) -> str:
    """Of the streams of a union behind the first."""
    return f"-{number + 1}" if number else ""


def _store_name(origin: Join | Result | NamedOutput | KeptTable, topic: str | None) -> str:
    """Of the store and the internal topic: the user's, else that of the sink, which no other branch has."""
    if origin.name is not None:
        return origin.name
    method = "join" if isinstance(origin, Join) else origin.word
    if topic is None:
        raise ConfigurationError(
            f"A result without sink() has no name for its store: name that with {method}(name=...), or give the job "
            "its sink."
        )
    try:
        return check_name("sink topic", topic)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} It would name the store, too: name that with {method}(name=...).") from None


def _refuse_one_name(stages: Sequence[StagePlan], sink_of: Mapping[int, str]) -> None:
    by_name = dict[str, StagePlan]()
    # Stores first, whose names the user gave; those of the stages before them follow from these.
    for stage in sorted(stages, key=lambda stage: stage.store is None):
        other = by_name.setdefault(stage.name, stage)
        if other is not stage:
            raise ConfigurationError(
                f"The sinks {sink_of[other.number]!r} and {sink_of[stage.number]!r} are of branches of one name, "
                f"{stage.name!r}: each keeps a store of its own. Give aggregate(), process() or join() another name=; "
                "or keep a join that both use in one variable: then it is made once."
            )


def _refuse_one_topic(stages: Sequence[StagePlan]) -> None:
    readers = dict[str, StagePlan]()
    for stage in stages:
        if (first := readers.setdefault(stage.source_topic, stage)) is not stage and stage.internal:
            raise ConfigurationError(
                f"The stages {first.name!r} and {stage.name!r} would read one internal topic, {stage.source_topic!r}, "
                "which follows from their names, and each needs its own: give one of them another name=."
            )
