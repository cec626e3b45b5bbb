"""What the rows of an internal topic mean: a part of the signatures of the stage that reads it, and of those before."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow as pa

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.streaming.operations.join_operation import JoinOperation
from airflow_provider.streaming.operations.join_side import JoinSide
from airflow_provider.streaming.operations.merge_aggregation import MergeAggregation
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.type_name import type_names

__all__ = ["reading", "writing"]


def reading(
    signature: StoreSignature,
    operation: Operation,
    schema: pa.Schema | None,
    sources: Mapping[str, Operation],
) -> StoreSignature:
    """The signature of a stage that reads an internal topic, with how it reads what is on the way.

    What an earlier version wrote there is read by this one, and so has to be of the same kind.

    Args:
        signature: of what the stage keeps.
        operation: of the stage.
        schema: of the rows that the operation gets; None while their types are not known.
        sources: by topic, the operations of the stages that write the internal topic.
    """
    if isinstance(operation, JoinOperation):
        times = {
            topic: before.time
            for topic, before in sources.items()
            if isinstance(before, JoinSide) and before.time is not None
        }
        return dataclasses.replace(signature, times=times)
    if isinstance(operation, MergeAggregation):
        return dataclasses.replace(signature, combined=True)
    combined = False if signature.aggregates else None
    return dataclasses.replace(signature, combined=combined, columns=type_names(schema, operation.columns))


def writing(signature: StoreSignature, topic: str, behind: StoreSignature) -> StoreSignature:
    """The signature of a stage that writes an internal topic: all that the stage behind it would refuse is in it.

    Args:
        signature: of the stage itself.
        topic: the internal topic.
        behind: of the stage that reads it, as `reading` makes it.
    """
    return dataclasses.replace(signature, writes={**signature.writes, topic: behind})
