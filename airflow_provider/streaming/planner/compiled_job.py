"""A job, compiled: decided once, carried out by driver and workers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pyarrow as pa

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.operations.json_decoder import JsonDecoder
from airflow_provider.streaming.operations.misread_values import MisreadValues
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.planner.row_types import RowTypes
from airflow_provider.streaming.planner.source_spec import SourceSpec
from airflow_provider.streaming.planner.stage_spec import InputSpec, StageSpec, StoreSpec
from airflow_provider.streaming.planner.topic_facts import TopicFacts
from airflow_provider.streaming.steps import Filter

__all__ = ["CompiledJob", "compile_job"]


@dataclass(frozen=True)
class CompiledJob:
    """All that follows from a job and its topics.

    Args:
        num_tasks: how many tasks the job has.
        source: how the driver reads the source.
        spec: what the workers do with its rows.
    """

    num_tasks: int
    source: SourceSpec
    spec: StageSpec

    def with_types(self, types: RowTypes) -> CompiledJob:
        """The same, signed: from now on the workers know what the state means that they write.

        Args:
            types: of the rows that reach the workers.

        Raises:
            ConfigurationError: the operation cannot keep a column's type, or the rows lack a column that it names.
        """
        lacking = [name for name in self.spec.operation.columns if name not in types.columns.names]
        if lacking:
            raise ConfigurationError(
                f"The operation of job {self.spec.application_id!r} names {', '.join(map(repr, lacking))}, and its "
                f"rows have {', '.join(map(repr, types.columns.names))}: give a part of a column a name of its own "
                "with with_column()."
            )
        signature = self.spec.operation.signature(self.source.key_name, types.key, types.columns)
        store = dataclasses.replace(self.spec.store, signature=signature)
        return dataclasses.replace(self, spec=dataclasses.replace(self.spec, store=store))


def compile_job(job: StatefulJob, topics: TopicFacts) -> CompiledJob:
    """What the driver and the workers have to do for a job.

    Where Spark decodes the values, it has the types of the columns, too: give them to `CompiledJob.with_types` then.

    Args:
        job: as the user wrote it.
        topics: what was found out about its topics.

    Raises:
        ConfigurationError: a part of the job is missing, or names a column that there is not.
    """
    job.checked()
    assert job.source_topic is not None
    assert job.key is not None
    assert job.operation is not None
    decoder = _decoder(job, job.key, job.operation)
    source = SourceSpec(
        application_id=job.application_id,
        topic=job.source_topic,
        schema=job.schema,
        steps=job.steps,
        key_name=job.key,
        columns=job.operation.columns,
        decoded_by_worker=decoder is not None,
        keeps_records=job.error_policy.topic is not None,
        max_offsets_per_trigger=job.max_offsets_per_trigger,
        kafka_options=job.kafka_options,
        goes_on_after_loss=job.data_loss == "continue",
    )
    filters = tuple(step.name for step in job.steps if isinstance(step, Filter))
    rocksdb = dataclasses.replace(
        job.rocksdb,
        bulk_write_buffer_bytes=job.restore.write_buffer_bytes,
        bulk_max_write_buffers=job.restore.max_write_buffers,
    )
    spec = StageSpec(
        application_id=job.application_id,
        input=InputSpec(
            topic=job.source_topic,
            key_name=job.key,
            filters=filters,
            decoder=decoder,
            json=job.schema is not None,
            misread=MisreadValues.of(job.schema),
            num_partitions=topics.source_partitions if _is_checked(job, topics) else None,
        ),
        operation=job.operation,
        store=StoreSpec(name=job.store, rocksdb=rocksdb, delete_retention_ms=topics.delete_retention_ms),
        sink_topic=job.sink_topic,
        transaction_timeout_ms=job.transaction_timeout_ms,
        error_policy=job.error_policy,
        certify_interval_s=job.certify_interval_s,
        snapshots=job.snapshot_settings,
        restore=job.restore,
        topic_ids=topics.topic_ids,
        max_message_bytes=topics.max_message_bytes,
    )
    compiled = CompiledJob(topics.source_partitions, source, spec)
    return compiled if decoder is None else compiled.with_types(_types(decoder, job.key))


def _is_checked(job: StatefulJob, topics: TopicFacts) -> bool:
    return topics.source_partitions > 1 and not job.trust_partitioning


def _types(decoder: JsonDecoder, key: str) -> RowTypes:
    schema = pa.table(decoder.decode(pa.chunked_array([], pa.binary())).columns).schema
    return RowTypes(schema.field(key).type, schema)


def _decoder(job: StatefulJob, key: str, operation: Operation) -> JsonDecoder | None:
    """Decodes the values in the worker, when no step needs them in Spark and their types are plain."""
    if job.steps or job.schema is None:
        return None
    decoder = JsonDecoder.of(job.schema)
    if decoder is None:
        return None
    kinds = {field.name: field.kind for field in decoder.fields}
    # A double as a key is written by Spark's rules, which are its own.
    plain_key = kinds.get(key, "DOUBLE") != "DOUBLE"
    return decoder if plain_key and set(operation.columns) <= set(kinds) else None
