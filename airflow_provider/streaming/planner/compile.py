"""From a job and its topics to what driver and workers do."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.expressions.expression import arrow_of
from airflow_provider.streaming.expressions.spark_types import LeftToSparkError
from airflow_provider.streaming.expressions.worker_steps import SteppedDecoder
from airflow_provider.streaming.joins.join_rows import LEFT, RIGHT
from airflow_provider.streaming.json.spark_json import SparkJson
from airflow_provider.streaming.json.types import json_type, type_name
from airflow_provider.streaming.language.selection import key_after
from airflow_provider.streaming.operations.operation import Decoder, Operation
from airflow_provider.streaming.planner.compiled_job import CompiledJob, CompiledStage, SourceSpec
from airflow_provider.streaming.planner.job_check import check_union
from airflow_provider.streaming.planner.row_decoder import USUAL_SESSION, SqlSession, composed_of, decoder_of
from airflow_provider.streaming.planner.stage_plan import StagePlan, changelog_of, partitions_read, source_topics
from airflow_provider.streaming.planner.stage_spec import InputSpec, StageSpec, StoreSpec
from airflow_provider.streaming.terms.steps import PASSED, Select, Step, TypedKey, WithColumn

if TYPE_CHECKING:
    from airflow_provider.streaming.planner.job import StatefulJob

_DAY_MS: Final = 86_400_000
_NO_STORE: Final = "commits"
"""Name of the store that holds nothing but the position of a task without state."""

TypesOf = Callable[[SourceSpec], pa.Schema]
"""The types of what Spark makes of a source: of the columns that the operation reads, and of the key's column, unless
the record's key is the group."""


@dataclass(frozen=True, kw_only=True)
class TopicFacts:
    """What was found out about a job's topics.

    Args:
        partitions: by topic that a stage reads, how many it has: as many tasks has the stage.
        delete_retention_ms: by changelog, its ``delete.retention.ms``: for how long it keeps tombstones.
        topic_ids: by topic, its id in the cluster, of sources and changelogs at least; empty where there is none.
        max_message_bytes: by topic that tasks write to, its ``max.message.bytes``.
    """

    partitions: Mapping[str, int]
    delete_retention_ms: Mapping[str, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    max_message_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Rows:
    """What the operation of a stage gets, and what it writes of that into an internal topic.

    Args:
        key: the type of the key that is written, before it became text.
        columns: the types of what the operation reads.
        parts: of a key of several columns their types, where they are known.
        writer: the operation.
    """

    topic: str
    key: pa.DataType
    columns: pa.Schema
    parts: Mapping[str, pa.DataType]
    writer: StagePlan
    operation: Operation

    @property
    def schema(self) -> str:
        """Of what is written, in Spark DDL."""
        return self.operation.writes(self.writer.key, self.columns)

    @property
    def casts(self) -> tuple[Step, ...]:
        """The steps that give what is read again its types: a key is written as text."""
        types = {self.writer.key: self.key, **self.parts}
        keys = self.operation.written_keys(self.writer.key)
        named = {name: kind for name in keys if name in types and (kind := json_type(types[name])) is not None}
        return tuple(TypedKey(name, kind) for name, kind in named.items() if kind != "STRING")


_Written = dict[tuple[str, int | None], _Rows]
"""By internal topic, and by side of a join, what the first stage writes that does."""


def assumed_facts(job: StatefulJob, partitions: int) -> TopicFacts:
    """Of topics as they are made, where each source has so many partitions."""
    return TopicFacts(
        partitions=partitions_read(job.stages, dict.fromkeys(source_topics(job.stages), partitions)),
        delete_retention_ms={changelog_of(job.application_id, plan): _DAY_MS for plan in job.stages},
    )


class _UnknownTypesError(Exception):
    """Spark would have to be asked."""


def left_to_spark(job: StatefulJob) -> Mapping[int, str]:
    """By stage of which Spark makes the rows, why, as far as that is known without it: to the first that is Spark's."""
    found = dict[int, str]()

    def types_of(_: SourceSpec) -> pa.Schema:
        raise _UnknownTypesError

    with contextlib.suppress(_UnknownTypesError, ConfigurationError):
        compile_job(job, assumed_facts(job, 1), types_of, on_left=found.__setitem__)
    return found


def compile_job(
    job: StatefulJob,
    topics: TopicFacts,
    types_of: TypesOf,
    session: SqlSession = USUAL_SESSION,
    on_left: Callable[[int, str], None] = lambda *_: None,
) -> CompiledJob:
    """What the driver and the workers have to do for a job.

    One pass over the stages: what each reads is a topic of the user's, or written by stages before it. So the types of
    its rows are known when its turn comes, and what cannot be done with them is found before anything runs.

    Args:
        types_of: asked for each source that Spark decodes, and for no other.
        session: Spark's.
        on_left: told the number of a stage of which Spark makes the rows, and why.

    Raises:
        ConfigurationError: the operation cannot keep a column's type, the rows lack a column that it names, streams of
            a union have a column of two types, or the sides of a join have keys of two types.
    """
    wants = _Wants.of(job.stages)
    plans = _with_passed(job.stages, wants)
    between = {plan.source_topic for plan in plans if plan.internal}
    written, stages = _Written(), list[CompiledStage]()
    for plan in plans:
        stage, rows = _compiled(job, plan, topics, written, types_of, session, on_left)
        stages.append(stage)
        for topic in between.intersection(plan.outputs):
            name = plan.named_outputs.get(topic)
            into = rows if name is None else dataclasses.replace(rows, operation=plan.operation.of_output(name))
            first = written.setdefault((topic, plan.operation.side_written), into)
            check_union(first.topic, _sql_types(plan, first), rows.topic, _sql_types(plan, rows))
    return CompiledJob(job.application_id, _with_internal_rows(_with_time(plans, stages, wants)))


def _compiled(
    job: StatefulJob,
    plan: StagePlan,
    topics: TopicFacts,
    written: _Written,
    types_of: TypesOf,
    session: SqlSession,
    on_left: Callable[[int, str], None],
) -> tuple[CompiledStage, _Rows]:
    """A stage, and what its operation gets."""
    decoder: Decoder | None
    fed = _fed(job, plan, written) if plan.internal else None
    operation = plan.operation if fed is None else plan.operation.of_rows(fed.columns)
    steps = plan.steps
    if fed is not None and operation.decoder is not None:
        # What is on the way is no JSON of columns, but made for this operation alone.
        schema, decoder, columns = None, operation.decoder, fed.columns
        source = _source(job, plan, schema, steps, by_worker=True)
    else:
        schema = plan.schema if fed is None else fed.schema
        steps = steps if fed is None else (*fed.casts, *steps)
        json = None
        try:
            json = decoder_of(schema, plan, steps, session)
        except LeftToSparkError as reason:
            on_left(plan.number, str(reason))
        decoder = json
        passed = fed is not None and fed.operation.passes
        source = _source(job, plan, schema, steps, by_worker=json is not None, passed=passed)
        columns = types_of(source) if json is None else _columns_of(json)
    key = fed.key if fed is not None and plan.keyed else columns.field(plan.key).type
    lacking = [name for name in operation.columns if name not in columns.names]
    if lacking:
        raise ConfigurationError(
            f"The operation of job {job.application_id!r} names {', '.join(map(repr, lacking))}, and its "
            f"rows have {', '.join(map(repr, columns.names))}: give a part of a column a name of its own "
            "with with_column()."
        )
    signature = operation.signature(plan.key, key, columns)
    read = pa.schema([columns.field(name) for name in operation.columns])
    written_key = key if operation.written_key is None else columns.field(operation.written_key).type
    parts_of = types_of if decoder is None else lambda _: columns
    rows = _Rows(plan.source_topic, written_key, read, _parts(job, plan, fed, source, parts_of), plan, operation)
    partitions = topics.partitions[plan.source_topic]
    # Whether records of a group may be in several of them, which is checked then.
    groups_apart = plan.store is not None and not plan.internal and not plan.trust_partitioning
    input_ = InputSpec(
        topic=plan.source_topic,
        key_name=plan.key,
        filters=plan.filters,
        decoder=decoder,
        keyed=plan.keyed,
        json=schema is not None,
        by_spark=SparkJson(schema),
        event_time=plan.event_time,
        columns=rows.columns,
        num_partitions=partitions if partitions > 1 and groups_apart else None,
        table=plan.table,
        null_keys=plan.null_keys,
        sides=plan.sides,
        from_stage=plan.internal,
    )
    spec = _spec(job, plan, topics, input_, operation, signature)
    return CompiledStage(number=plan.number, name=plan.name, num_tasks=partitions, source=source, spec=spec), rows


def _fed(job: StatefulJob, plan: StagePlan, written: _Written) -> _Rows:
    """What the stages before it write for a stage."""
    if not plan.operation.sided:
        return written[plan.source_topic, None]
    left, right = (written[plan.source_topic, side] for side in (LEFT, RIGHT))
    if type_name(left.key) != type_name(right.key):
        raise ConfigurationError(
            f"join(on={plan.key!r}) of job {job.application_id!r} compares {type_name(left.key)} with "
            f"{type_name(right.key)}: cast one of them with with_column(), so that equal keys have one text."
        )
    fields = {field.name: field for field in (*right.columns, *left.columns)}
    columns = pa.schema([fields[name] for name in plan.operation.columns])
    return dataclasses.replace(left, topic=plan.source_topic, columns=columns)


def _parts(
    job: StatefulJob, plan: StagePlan, fed: _Rows | None, source: SourceSpec, types_of: TypesOf
) -> Mapping[str, pa.DataType]:
    """The types of the columns that a key is made of, where another stage reads what becomes of it."""
    names = composed_of(plan)
    if not names:
        return {} if fed is None or plan.rekeys else fed.parts
    between = {other.source_topic for other in job.stages if other.internal}
    made = (other for other in job.stages if other.operation.written_keys(other.key) == names)
    if not any(between.intersection(other.outputs) for other in made):
        return {}
    types = types_of(dataclasses.replace(source, columns=names))
    return {name: types.field(name).type for name in names}


def _sql_types(plan: StagePlan, rows: _Rows) -> dict[str, str]:
    """The types of what a stage writes, in the words of a schema."""
    types = {plan.key: rows.key} | {field.name: field.type for field in rows.columns}
    return {name: json_type(kind) or type_name(kind) for name, kind in types.items()}


@dataclass(frozen=True)
class _Wants:
    """Which stages tell those behind them how far event time has got, and which are to know; by their numbers."""

    readers: Mapping[int, Sequence[StagePlan]]
    telling: Mapping[int, bool]
    wanting: Mapping[int, bool]

    @classmethod
    def of(cls, plans: Sequence[StagePlan]) -> _Wants:
        """Of the stages whose rows have event time, those for which it counts."""
        readers = {
            plan.number: [other for other in plans if other.internal and other.source_topic in plan.outputs]
            for plan in plans
        }
        # Backwards: a stage wants to know for itself, or for those behind it.
        telling, wanting = dict[int, bool](), dict[int, bool]()
        for plan in reversed(plans):
            timed = plan.event_time is not None and plan.tells_time
            telling[plan.number] = timed and any(wanting[reader.number] for reader in readers[plan.number])
            wanting[plan.number] = plan.internal and timed and (plan.operation.uses_time or telling[plan.number])
        return cls(readers, telling, wanting)


def _with_passed(plans: Sequence[StagePlan], wants: _Wants) -> list[StagePlan]:
    """With the joins of a stream with a table through which a row's own watermark goes, to where it counts.

    What comes of two streams is never behind what they tell, and windows put out what is over.
    """
    passing = {
        plan.source_topic: (plan.event_time.delay_ms, wants.readers[plan.number])
        for plan in plans
        if plan.operation.lets_pass and plan.event_time is not None and wants.telling[plan.number]
    }
    found = list[StagePlan]()
    for plan in plans:
        operation = plan.operation
        if plan.source_topic in passing:
            operation = operation.passing()
        elif plan.output_topic in passing:
            delay_ms, readers = passing[plan.output_topic]
            stays = all(_keeps_time(plan, reader) for reader in readers)
            operation = operation.passing(delay_ms, always=not stays)
        found.append(dataclasses.replace(plan, operation=operation))
    return found


def _keeps_time(side: StagePlan, reader: StagePlan) -> bool:
    """Whether the event time of a stream's rows is still that of what reads what is joined of them."""
    if side.event_time is None or reader.event_time is None or reader.event_time.of_record:
        return True
    column: str | None = side.event_time.column
    for step in reader.steps:
        if isinstance(step, Select):
            column = key_after(column, step)
        elif isinstance(step, WithColumn) and column is not None and step.name.lower() == column.lower():
            column = None
    return column == reader.event_time.column


def _with_time(plans: Sequence[StagePlan], stages: Sequence[CompiledStage], wants: _Wants) -> list[CompiledStage]:
    """With who tells whom how far event time has got: the stages whose rows have one, and those for which it counts."""
    readers, telling, wanting = wants.readers, wants.telling, wants.wanting
    found, by_number = list[CompiledStage](), {stage.number: stage for stage in stages}
    for plan, stage in zip(plans, stages, strict=True):
        spec = stage.spec
        if telling[plan.number]:
            listening = [reader for reader in readers[plan.number] if wanting[reader.number]]
            marked = {reader.source_topic: by_number[reader.number].num_tasks for reader in listening}
            spec = dataclasses.replace(spec, marked=marked)
        if plan.operation.lets_pass:
            # Also where it passes none any more: rows that wait may have it.
            spec = dataclasses.replace(spec, columns_alone=tuple(one for one in plan.outputs if one not in spec.marked))
        if wanting[plan.number]:
            sides: tuple[int | None, ...] = (LEFT, RIGHT) if plan.operation.sided else (None,)
            writers = [other for other in plans if telling[other.number] and plan.source_topic in other.outputs]
            upstream = tuple(
                tuple(
                    str(task)
                    for other in writers
                    if other.operation.side_written in plan.operation.told_by(side)
                    for task in by_number[other.number].tasks
                )
                for side in sides
            )
            spec = dataclasses.replace(spec, input=dataclasses.replace(spec.input, upstream=upstream))
        found.append(dataclasses.replace(stage, spec=spec))
    return found


def _with_internal_rows(stages: Sequence[CompiledStage]) -> tuple[CompiledStage, ...]:
    """With what goes over internal topics in the signatures of the stages on both sides.

    All that a stage would refuse is in the signatures of those before it: so what is behind comes first.
    """
    read = dict[str, StoreSignature]()
    signed = list[CompiledStage]()
    for stage in reversed(stages):
        spec, topic, own = stage.spec, stage.source.topic, stage.spec.store.signature
        assert own is not None
        signature = dataclasses.replace(own, writes={name: read[name] for name in spec.outputs if name in read})
        if stage.source.from_stage:
            before = {one.source.topic: one.spec.operation for one in stages if topic in one.spec.outputs}
            signature = read[topic] = spec.operation.reading(signature, spec.input.columns, before)
        store = dataclasses.replace(spec.store, signature=signature)
        signed.insert(0, dataclasses.replace(stage, spec=dataclasses.replace(spec, store=store)))
    return tuple(signed)


def _source(
    job: StatefulJob,
    plan: StagePlan,
    schema: str | None,
    steps: tuple[Step, ...],
    *,
    by_worker: bool,
    passed: bool = False,
) -> SourceSpec:
    return SourceSpec(
        application_id=job.application_id,
        topic=plan.source_topic,
        schema=schema,
        steps=steps,
        key_name=plan.key,
        columns=(*plan.operation.columns, PASSED) if passed else plan.operation.columns,
        decoded_by_worker=by_worker,
        keeps_records=job.error_policy.topic is not None,
        max_offsets_per_trigger=job.max_offsets_per_trigger,
        kafka_options=job.kafka_options,
        goes_on_after_loss=job.data_loss == "continue",
        from_stage=plan.internal,
        keyed=plan.keyed,
        event_time=plan.event_time,
        table=plan.table,
        changes=plan.changes,
    )


def _spec(
    job: StatefulJob,
    plan: StagePlan,
    topics: TopicFacts,
    input_: InputSpec,
    operation: Operation,
    signature: StoreSignature,
) -> StageSpec:
    changelog = changelog_of(job.application_id, plan)
    kind = job.kind_of(plan.store)
    rocksdb = dataclasses.replace(
        kind.rocksdb,
        bulk_write_buffer_bytes=job.restore.write_buffer_bytes,
        bulk_max_write_buffers=job.restore.max_write_buffers,
    )
    return StageSpec(
        application_id=job.application_id,
        input=input_,
        operation=operation,
        store=StoreSpec(
            name=plan.store or _NO_STORE,
            changelog=changelog,
            delete_retention_ms=topics.delete_retention_ms[changelog],
            kind=dataclasses.replace(kind, rocksdb=rocksdb),
            signature=signature,
        ),
        sink_topic=plan.output_topic,
        further_outputs=plan.further_outputs,
        named_outputs=plan.named_outputs,
        sink_partitions=None if plan.spread == "key" else topics.partitions[str(plan.output_topic)],
        spread=plan.spread,
        transaction_timeout_ms=job.transaction_timeout_ms,
        error_policy=job.error_policy,
        certify_interval_s=job.certify_interval_s,
        keeps_state=plan.store is not None,
        snapshots=job.snapshot_settings if plan.store in job.snapshot_stores else None,
        restore=job.restore,
        topic_ids=topics.topic_ids,
        max_message_bytes=topics.max_message_bytes,
    )


def _columns_of(decoder: SteppedDecoder) -> pa.Schema:
    """The types of the columns that a decoder makes."""
    return pa.schema([(name, arrow_of(kind)) for name, kind in decoder.kinds.items()])
