"""Whether the worker makes the rows of a stage, decoded and with all steps taken, or Spark does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.streaming.expressions.expression import DOUBLE, TIMESTAMP, fields_of, is_of_time
from airflow_provider.streaming.expressions.spark_types import LeftToSparkError
from airflow_provider.streaming.expressions.worker_steps import TIMES, RawDecoder, SteppedDecoder
from airflow_provider.streaming.json.json_decoder import WINDOW, JsonDecoder, JsonField, decoded_kind
from airflow_provider.streaming.planner.stage_plan import StagePlan
from airflow_provider.streaming.terms.sql_type import SqlType, parse_schema
from airflow_provider.streaming.terms.steps import PASSED, CompositeKey, Step


@dataclass(frozen=True)
class SqlSession:
    """What of Spark's settings decides what a value or an expression comes to.

    Args:
        ansi: whether it is in ANSI mode.
        utc: whether a time without a zone is one of UTC.
        plain_letters: whether its JVM's language has no capital and small letters of its own, as Turkish has.
    """

    ansi: bool = True
    utc: bool = True
    plain_letters: bool = True


USUAL_SESSION: Final = SqlSession()


def decoder_of(
    schema: str | None, plan: StagePlan, steps: tuple[Step, ...], session: SqlSession = USUAL_SESSION
) -> SteppedDecoder:
    """Decodes the values in the worker and takes the steps there.

    Args:
        schema: of the values, in Spark DDL; None where they are bytes.
        steps: all that come before the operation.
        session: Spark's, which the worker has to agree with.

    Raises:
        LeftToSparkError: Spark has to; says why.
    """
    decoder = RawDecoder() if schema is None else _json_decoder(schema, plan)
    if steps and not (session.ansi and session.plain_letters):
        raise LeftToSparkError("steps in a session that is not in ANSI mode, or whose language has letters of its own")
    time = plan.event_time
    needed = {*plan.operation.columns, *composed_of(plan), plan.key, plan.operation.written_key, PASSED}
    needed |= set() if time is None or time.of_record else {time.column}
    named = {name for name in needed if name is not None}
    stepped = SteppedDecoder.of(decoder, steps, named, changes=plan.changes)
    if not session.utc and (stepped.has_times or any(is_of_time(one.kind) for one in decoder.fields)):
        raise LeftToSparkError("a TIMESTAMP in a session of another zone than UTC")
    kinds = stepped.kinds
    if lacking := {*plan.operation.columns, *composed_of(plan)} - kinds.keys():
        raise LeftToSparkError(f"{min(lacking)!r}, which is no column of the schema")
    if time is not None and not time.of_record and kinds.get(time.column) not in TIMES:
        raise LeftToSparkError("an event time that is no column of the schema")
    key = kinds.get(plan.key, WINDOW)
    if not plan.keyed and (key == DOUBLE or fields_of(key)):
        raise LeftToSparkError("a key that is a DOUBLE, a STRUCT, or no column of the schema")
    return stepped


def _json_decoder(schema: str, plan: StagePlan) -> JsonDecoder:
    # What an earlier stage wrote decodes: a column that nobody reads may be of any type.
    columns = parse_schema(schema) if plan.internal else None
    if columns is None:
        decoder = JsonDecoder.of(schema)
    else:
        kinds = {name: _kind(kind) for name, kind in columns.items()}
        decoder = JsonDecoder.of_fields([JsonField(name, kind) for name, kind in kinds.items() if kind is not None])
    if decoder is None:
        raise LeftToSparkError(_other_type(schema))
    return decoder


def _kind(kind: SqlType) -> str | None:
    """Of a column that an earlier stage wrote, where the worker takes it."""
    if [(name, inner.name) for name, inner in kind.fields.items()] == [("start", TIMESTAMP), ("end", TIMESTAMP)]:
        return WINDOW
    return decoded_kind(kind.text)


def _other_type(schema: str) -> str:
    columns = parse_schema(schema) or {}
    return next((f"the type {kind.text}" for kind in columns.values() if decoded_kind(kind.text) is None), "its schema")


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
