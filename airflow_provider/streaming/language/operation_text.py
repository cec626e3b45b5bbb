"""An operation and a step in one line, for people."""

from __future__ import annotations

from airflow_provider.streaming.duration import duration_text
from airflow_provider.streaming.operations.aggregate import Aggregate, Aggregation
from airflow_provider.streaming.operations.drop_duplicates import DUPLICATES, DropDuplicates
from airflow_provider.streaming.operations.join_interval import IntervalJoin
from airflow_provider.streaming.operations.join_side import JoinSide
from airflow_provider.streaming.operations.join_stream_table import StreamTableJoin
from airflow_provider.streaming.operations.join_tables import TableTableJoin
from airflow_provider.streaming.operations.merge_aggregation import MergeAggregation
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.partial_aggregation import PartialAggregation
from airflow_provider.streaming.operations.process import Process
from airflow_provider.streaming.operations.repartition import Repartition
from airflow_provider.streaming.operations.session_aggregate import SessionAggregation
from airflow_provider.streaming.operations.windowed_aggregate import WindowedAggregation
from airflow_provider.streaming.steps import CompositeKey, Filter, Select, Selected, Step

__all__ = ["operation_text", "step_text"]


def operation_text(operation: Operation) -> str:
    """What an operation does, such as ``aggregate count() AS orders``."""
    match operation:
        case WindowedAggregation() | SessionAggregation():
            when = "when it changes" if operation.emit == "update" else "when it is over"
            return f"aggregate {_aggregates(operation.aggregates)} by {operation.windows.text}, each {when}"
        case Aggregation():
            return f"aggregate {_aggregates(operation.aggregates)}"
        case PartialAggregation():
            return f"combine {_aggregates(operation.aggregates)}"
        case MergeAggregation():
            return f"aggregate {_aggregates(operation.aggregates)}, from parts"
        case Process():
            return f"process {_name(operation.function)}({', '.join(operation.columns)})"
        case DropDuplicates():
            return f"{operation.text} (else counted: {DUPLICATES})"
        case JoinSide():
            return f"write {', '.join(operation.columns)} for a join"
        case StreamTableJoin():
            history = f", history {duration_text(operation.history_ms)}" if operation.history_ms else ""
            grace = f", grace {duration_text(operation.grace_ms)}" if operation.grace_ms else ""
            table = "all of a table" if operation.broadcast else "a table"
            return f"{operation.how} join of a stream with {table}{history}{grace}"
        case TableTableJoin():
            return f"{operation.how} join of two tables"
        case IntervalJoin():
            before, after = duration_text(operation.before_ms), duration_text(operation.after_ms)
            return f"{operation.how} join of two streams, the right one {before} before to {after} after"
        case Repartition():
            return f"write {', '.join(operation.columns) or 'the key'}"
    return type(operation).__name__


def step_text(step: Step) -> str:
    """What a step does, with the name under which it counts what it drops."""
    match step:
        case Filter():
            return f"filter {_sql(step.condition)} (else counted: {step.name})"
        case Select():
            counted = f" (nothing counted: {step.name})" if step.name is not None else ""
            return f"select {', '.join(map(_selected, step.columns))}{counted}"
        case CompositeKey():
            return f"key of {', '.join(step.columns)}"
    return f"with_column {step.name} = {_sql(step.expression)}"


def _aggregates(aggregates: tuple[Aggregate, ...]) -> str:
    return ", ".join(f"{a.function.value}({a.column or ''}) AS {a.name}" for a in aggregates)


def _selected(selected: Selected) -> str:
    if not selected.names or selected.names == (selected.expression,):
        return selected.expression
    names = selected.names[0] if len(selected.names) == 1 else f"({', '.join(selected.names)})"
    expression = f"{selected.generator}({selected.expression})" if selected.generator else selected.expression
    return f"{expression} AS {names}"


def _sql(expression: object) -> str:
    # A Column of Spark's has a text of its own.
    return " ".join(str(expression).split())


def _name(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
