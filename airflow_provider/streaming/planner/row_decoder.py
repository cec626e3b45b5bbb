"""Whether the worker makes the rows of a stage, decoded and with all steps taken, or Spark does."""

from __future__ import annotations

from airflow_provider.streaming.expressions.expression import BIGINT, DOUBLE
from airflow_provider.streaming.expressions.spark_sql import LeftToSparkError
from airflow_provider.streaming.expressions.worker_steps import SteppedDecoder
from airflow_provider.streaming.json.json_decoder import JsonDecoder
from airflow_provider.streaming.planner.stage_plan import StagePlan
from airflow_provider.streaming.terms.steps import CompositeKey, Step


def decoder_of(schema: str | None, plan: StagePlan, steps: tuple[Step, ...]) -> SteppedDecoder:
    """Decodes the values in the worker and takes the steps there.

    Args:
        schema: of the values, in Spark DDL.
        steps: all that come before the operation.

    Raises:
        LeftToSparkError: Spark has to; says why.
    """
    if schema is None:
        raise LeftToSparkError("records without a schema")
    if plan.changes:
        raise LeftToSparkError("a stream of changes")
    decoder = JsonDecoder.of(schema)
    if decoder is None:
        raise LeftToSparkError("a type of the schema")
    stepped = SteppedDecoder.of(decoder, steps)
    kinds, time = stepped.kinds, plan.event_time
    if lacking := {*plan.operation.columns, *composed_of(plan)} - kinds.keys():
        raise LeftToSparkError(f"{min(lacking)!r}, which is no column of the schema")
    if time is not None and not time.of_record and kinds.get(time.column) != BIGINT:
        raise LeftToSparkError("an event time that is no BIGINT")
    if not plan.keyed and kinds.get(plan.key, DOUBLE) == DOUBLE:
        raise LeftToSparkError("a key that is a DOUBLE, or no column of the schema")
    return stepped


def rows_by(plan: StagePlan) -> str | None:
    """Who makes the rows of a stage, for people; None where that depends on types that Spark finds out."""
    if plan.internal:
        return None
    try:
        decoder_of(plan.schema, plan, plan.steps)
    except LeftToSparkError as reason:
        return f"by Spark: {reason}"
    return "by the workers"


def composed_of(plan: StagePlan) -> tuple[str, ...]:
    """The columns of which a stage makes its key; none where that is a column."""
    return next((step.columns for step in plan.steps if isinstance(step, CompositeKey) and step.name == plan.key), ())
