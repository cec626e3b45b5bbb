"""A step in one line, for people."""

from __future__ import annotations

from airflow_provider.streaming.terms.steps import CompositeKey, Filter, Select, Selected, Step


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


def _selected(selected: Selected) -> str:
    if not selected.names or selected.names == (selected.expression,):
        return selected.expression
    names = selected.names[0] if len(selected.names) == 1 else f"({', '.join(selected.names)})"
    expression = f"{selected.generator}({selected.expression})" if selected.generator else selected.expression
    return f"{expression} AS {names}"


def _sql(expression: object) -> str:
    # A Column of Spark's has a text of its own.
    return " ".join(str(expression).split())
