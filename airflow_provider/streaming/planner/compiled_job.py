"""A job, compiled: decided once, carried out by driver and workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.operations.join_rows import LEFT, RIGHT
from airflow_provider.streaming.operations.json_decoder import JsonDecoder
from airflow_provider.streaming.operations.json_type import json_schema
from airflow_provider.streaming.operations.misread_values import MisreadValues
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.schema_misfit import SchemaMisfit
from airflow_provider.streaming.operations.type_name import type_name
from airflow_provider.streaming.planner.row_types import RowTypes
from airflow_provider.streaming.planner.source_spec import SourceSpec
from airflow_provider.streaming.planner.stage_plan import StagePlan
from airflow_provider.streaming.planner.stage_spec import Decoder, InputSpec, StageSpec, StoreSpec, stage_of
from airflow_provider.streaming.planner.stage_topics import changelog_of
from airflow_provider.streaming.planner.topic_facts import TopicFacts
from airflow_provider.streaming.steps import Step

__all__ = ["CompiledJob", "CompiledStage", "Fed", "compile_job"]

_NO_STORE: Final = "commits"
"""Name of the store that holds nothing but the position of a task without state."""


@dataclass(frozen=True)
class Fed:
    """What an earlier stage writes for a later one.

    Args:
        number: of the earlier stage.
        side: of a join that it writes for; None for no join.
        types: of the rows that it writes.
    """

    number: int
    side: int | None
    types: RowTypes


@dataclass(frozen=True, kw_only=True)
class CompiledStage:
    """All that follows from a stage and its topics.

    Args:
        number: of the stage.
        name: for people.
        num_tasks: how many tasks it has.
        source: how the driver reads its source.
        spec: what the workers do with its rows.
        key_type: of the key before it became text, where an earlier stage writes the source; None where that is found
            out of the source itself, and while it is not known.
        fed: what is known of the earlier stages that write its source.
    """

    number: int
    name: str
    num_tasks: int
    source: SourceSpec
    spec: StageSpec
    key_type: pa.DataType | None = None
    fed: tuple[Fed, ...] = ()

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """Its tasks, in order."""
        return tuple(TaskId(self.number, partition) for partition in range(self.num_tasks))

    @property
    def signed(self) -> bool:
        """Whether it is known what its state means, for which the types of its columns have to be."""
        return self.spec.store.signature is not None


@dataclass(frozen=True)
class CompiledJob:
    """All that follows from a job and its topics.

    Args:
        application_id: the application.
        stages: in the order of their numbers.
    """

    application_id: str
    stages: tuple[CompiledStage, ...]

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """Of all stages, in order."""
        return tuple(task for stage in self.stages for task in stage.tasks)

    @cached_property
    def specs(self) -> Mapping[int, StageSpec]:
        """By stage, what the workers do."""
        return {stage.number: stage.spec for stage in self.stages}

    def stage(self, number: int) -> CompiledStage:
        """One of its stages.

        Raises:
            ConfigurationError: there is no such stage.
        """
        return stage_of(self.application_id, {stage.number: stage for stage in self.stages}, number)

    def with_types(self, types: RowTypes, number: int = 0) -> CompiledJob:
        """The same, with a stage signed: from now on the workers know what the state means that they write.

        Stages that read what it writes learn of the types too.

        Args:
            types: of the rows that reach the workers.
            number: of the stage.

        Raises:
            ConfigurationError: the operation cannot keep a column's type, or the rows lack a column that it names.
        """
        stage = _signed(self.stage(number), types)
        job = self.replaced(stage)
        for later in job.stages:
            if later.source.from_stage and later.source.topic in stage.spec.outputs:
                job = _fed(job, job.stage(later.number), stage, types)
        return _with_internal_rows(job)

    def replaced(self, changed: CompiledStage) -> CompiledJob:
        """The same, with another version of one of its stages."""
        stages = tuple(changed if stage.number == changed.number else stage for stage in self.stages)
        return CompiledJob(self.application_id, stages)


def compile_job(job: StatefulJob, topics: TopicFacts) -> CompiledJob:
    """What the driver and the workers have to do for a job.

    Where Spark decodes the values, it has the types of the columns, too: give them to `CompiledJob.with_types` then.

    Args:
        job: as the user wrote it.
        topics: what was found out about its topics.

    Raises:
        ConfigurationError: the operation cannot keep a column's type, or the rows lack a column that it names.
    """
    compiled = CompiledJob(job.application_id, tuple(_compiled(job, plan, topics) for plan in job.stages))
    for stage in compiled.stages:
        decoder = stage.spec.input.decoder
        # What reads an earlier stage is signed with that.
        if isinstance(decoder, JsonDecoder) and not stage.source.from_stage:
            columns = columns_of(decoder)
            compiled = compiled.with_types(RowTypes(columns.field(stage.source.key_name).type, columns), stage.number)
    return compiled


def columns_of(decoder: JsonDecoder) -> pa.Schema:
    """The types of the columns that a decoder makes."""
    return pa.table(decoder.decode(pa.chunked_array([], pa.binary())).columns).schema


def _compiled(job: StatefulJob, plan: StagePlan, topics: TopicFacts) -> CompiledStage:
    decoder = None if plan.internal else _decoder(plan)
    source = SourceSpec(
        application_id=job.application_id,
        topic=plan.source_topic,
        schema=plan.schema,
        steps=plan.steps,
        key_name=plan.key,
        columns=plan.operation.columns,
        decoded_by_worker=decoder is not None,
        keeps_records=job.error_policy.topic is not None,
        max_offsets_per_trigger=job.max_offsets_per_trigger,
        kafka_options=job.kafka_options,
        goes_on_after_loss=job.data_loss == "continue",
        from_stage=plan.internal,
        keyed=plan.keyed,
        event_time=plan.event_time,
        table=plan.table,
    )
    rocksdb = dataclasses.replace(
        job.rocksdb,
        bulk_write_buffer_bytes=job.restore.write_buffer_bytes,
        bulk_max_write_buffers=job.restore.max_write_buffers,
    )
    partitions, changelog = topics.partitions[plan.source_topic], changelog_of(job.application_id, plan)
    spec = StageSpec(
        application_id=job.application_id,
        input=InputSpec(
            topic=plan.source_topic,
            key_name=plan.key,
            filters=plan.filters,
            decoder=decoder,
            keyed=plan.keyed,
            json=plan.schema is not None,
            misread=MisreadValues.of(plan.schema),
            misfit=SchemaMisfit(plan.schema),
            event_time=plan.event_time,
            num_partitions=partitions if partitions > 1 and _needs_groups_together(plan) else None,
            table=plan.table,
            null_keys=plan.null_keys,
            sides=plan.sides,
        ),
        operation=plan.operation,
        store=StoreSpec(
            name=plan.store or _NO_STORE,
            changelog=changelog,
            rocksdb=rocksdb,
            delete_retention_ms=topics.delete_retention_ms[changelog],
        ),
        sink_topic=plan.output_topic,
        further_outputs=plan.further_outputs,
        sink_partitions=None if plan.spread == "key" else topics.partitions[str(plan.output_topic)],
        spread=plan.spread,
        transaction_timeout_ms=job.transaction_timeout_ms,
        error_policy=job.error_policy,
        certify_interval_s=job.certify_interval_s,
        keeps_state=plan.store is not None,
        # There is nothing in such a store that a snapshot would bring sooner.
        snapshots=None if plan.store is None else job.snapshot_settings,
        restore=job.restore,
        topic_ids=topics.topic_ids,
        max_message_bytes=topics.max_message_bytes,
    )
    return CompiledStage(number=plan.number, name=plan.name, num_tasks=partitions, source=source, spec=spec)


def _needs_groups_together(plan: StagePlan) -> bool:
    """Whether it has to be checked that all records of a group are in one partition."""
    return plan.store is not None and not plan.internal and not plan.trust_partitioning


def _fed(job: CompiledJob, stage: CompiledStage, writer: CompiledStage, types: RowTypes) -> CompiledJob:
    """With a stage that knows of which types the records are that an earlier one writes."""
    earlier = writer.spec.operation
    columns = pa.schema([types.columns.field(name) for name in earlier.columns])
    known = Fed(writer.number, earlier.side_written, RowTypes(types.key, columns))
    before = tuple(fed for fed in stage.fed if fed.number != writer.number)
    stage = dataclasses.replace(stage, fed=(*before, known))
    operation = stage.spec.operation
    united = [fed.types for fed in before if fed.side == known.side]
    if united:
        _refuse_other_types(job, writer, united[0], known.types)
    if operation.sided:
        return _joining(job.replaced(stage), stage, operation)
    if united:
        return job.replaced(stage)
    operation = operation.of_rows(columns)
    if operation.decoder is not None:
        fed = _decoded_by_worker(stage, operation, operation.decoder)
        return job.replaced(fed).with_types(RowTypes(types.key, columns), stage.number)
    schema = stage.source.schema or json_schema(columns)
    decoder = _json_decoder(schema, stage.source.steps, operation)
    keyed = stage.spec.input.keyed
    if decoder is not None and (keyed or _has_plain_key(decoder, stage.source.key_name)):
        fed = _decoded_by_worker(stage, operation, decoder)
        decoded = columns_of(decoder)
        key = types.key if keyed else decoded.field(stage.source.key_name).type
        return job.replaced(fed).with_types(RowTypes(key, decoded), stage.number)
    source = dataclasses.replace(stage.source, schema=schema)
    input_ = dataclasses.replace(
        stage.spec.input, json=True, misread=MisreadValues.of(schema), misfit=SchemaMisfit(schema)
    )
    spec = dataclasses.replace(stage.spec, input=input_)
    return job.replaced(dataclasses.replace(stage, source=source, spec=spec, key_type=types.key if keyed else None))


def _with_internal_rows(job: CompiledJob) -> CompiledJob:
    """With what goes over internal topics in the signatures of the stages on both sides, as far as it is known."""
    # What is behind a stage is signed first.
    for number in reversed([stage.number for stage in job.stages]):
        reader = job.stage(number)
        signature, topic = reader.spec.store.signature, reader.source.topic
        if signature is None or not reader.source.from_stage:
            continue
        writers = [stage for stage in job.stages if topic in stage.spec.outputs]
        sources = {writer.source.topic: writer.spec.operation for writer in writers}
        signature = reader.spec.operation.reading(signature, reader.spec.input.columns, sources)
        job = job.replaced(_with_signature(reader, signature))
        for writer in writers:
            own = writer.spec.store.signature
            if own is not None:
                job = job.replaced(_with_signature(writer, _writing(own, topic, signature)))
    return job


def _writing(signature: StoreSignature, topic: str, behind: StoreSignature) -> StoreSignature:
    """The signature of a stage that writes an internal topic: all that the stage behind it would refuse is in it.

    Args:
        signature: of the stage itself.
        topic: the internal topic.
        behind: of the stage that reads it, as `Operation.reading` makes it.
    """
    return dataclasses.replace(signature, writes={**signature.writes, topic: behind})


def _with_signature(stage: CompiledStage, signature: StoreSignature) -> CompiledStage:
    store = dataclasses.replace(stage.spec.store, signature=signature)
    return dataclasses.replace(stage, spec=dataclasses.replace(stage.spec, store=store))


def _joining(job: CompiledJob, stage: CompiledStage, operation: Operation) -> CompiledJob:
    """With a join that knows the types of both sides; it waits for them where only one is known."""
    by_side = {fed.side: fed.types for fed in stage.fed}
    if len(by_side) < 2:
        return job
    left, right = by_side[LEFT], by_side[RIGHT]
    if type_name(left.key) != type_name(right.key):
        raise ConfigurationError(
            f"join(on={stage.source.key_name!r}) of job {job.application_id!r} compares {type_name(left.key)} with "
            f"{type_name(right.key)}: cast one of them with with_column(), so that equal keys have one text."
        )
    fields = {field.name: field for field in (*right.columns, *left.columns)}
    columns = pa.schema([fields[name] for name in operation.columns])
    assert operation.decoder is not None
    joining = _decoded_by_worker(stage, operation, operation.decoder)
    return job.replaced(joining).with_types(RowTypes(left.key, columns), stage.number)


def _refuse_other_types(job: CompiledJob, writer: CompiledStage, first: RowTypes, now: RowTypes) -> None:
    for name in first.columns.names:
        types = [type_name(one.columns.field(name).type) for one in (first, now)]
        if types[0] != types[1]:
            raise ConfigurationError(
                f"union() of job {job.application_id!r}: the column {name!r} is {types[0]} in the first stream, and "
                f"{types[1]} in that of {writer.source.topic!r}: cast one of them with with_column()."
            )


def _signed(stage: CompiledStage, types: RowTypes) -> CompiledStage:
    spec, operation = stage.spec, stage.spec.operation
    lacking = [name for name in operation.columns if name not in types.columns.names]
    if lacking:
        raise ConfigurationError(
            f"The operation of job {spec.application_id!r} names {', '.join(map(repr, lacking))}, and its "
            f"rows have {', '.join(map(repr, types.columns.names))}: give a part of a column a name of its own "
            "with with_column()."
        )
    signature = operation.signature(stage.source.key_name, types.key, types.columns)
    store = dataclasses.replace(spec.store, signature=signature)
    input_ = dataclasses.replace(
        spec.input, columns=pa.schema([types.columns.field(name) for name in operation.columns])
    )
    return dataclasses.replace(stage, spec=dataclasses.replace(spec, store=store, input=input_))


def _decoded_by_worker(stage: CompiledStage, operation: Operation, decoder: Decoder) -> CompiledStage:
    input_ = dataclasses.replace(stage.spec.input, decoder=decoder, json=isinstance(decoder, JsonDecoder))
    return dataclasses.replace(
        stage,
        source=dataclasses.replace(stage.source, decoded_by_worker=True),
        spec=dataclasses.replace(stage.spec, input=input_, operation=operation),
    )


def _decoder(plan: StagePlan) -> JsonDecoder | None:
    """Decodes the values in the worker, when no step needs them in Spark and their types are plain."""
    decoder = None if plan.schema is None else _json_decoder(plan.schema, plan.steps, plan.operation)
    if decoder is None:
        return None
    kinds = {field.name: field.kind for field in decoder.fields}
    time = plan.event_time
    plain_time = time is None or time.of_record or kinds.get(time.column) == "BIGINT"
    return decoder if plain_time and _has_plain_key(decoder, plan.key) else None


def _has_plain_key(decoder: JsonDecoder, key: str) -> bool:
    """Whether a column can be made the key without Spark: a double as a key is written by its rules."""
    return {field.name: field.kind for field in decoder.fields}.get(key, "DOUBLE") != "DOUBLE"


def _json_decoder(schema: str, steps: Sequence[Step], operation: Operation) -> JsonDecoder | None:
    decoder = None if steps else JsonDecoder.of(schema)
    if decoder is None or not set(operation.columns) <= {field.name for field in decoder.fields}:
        return None
    return decoder
