"""Whether the streams of a union have columns of the same types, as far as that is known before Spark starts."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.column_check import columns_after
from airflow_provider.streaming.planner.stage_plan import StagePlan
from airflow_provider.streaming.sql_type import SqlType

__all__ = ["check_unions"]


def check_unions(stages: Sequence[StagePlan]) -> None:
    """Refuse streams that come together in an internal topic with a column of two types.

    Columns whose type only Spark knows are compared once it runs, and so are those with parameters.

    Args:
        stages: of the job.

    Raises:
        ConfigurationError: a column of two of them has two types.
    """
    first = dict[tuple[str | None, int | None], StagePlan]()
    for stage in stages:
        if not stage.feeds or stage.internal:
            continue
        side = stage.operation.side_written
        one = first.setdefault((stage.output_topic, side), stage)
        before, now = _types(one), _types(stage)
        for name in stage.operation.columns:
            kinds = [types.get(name.lower()) for types in (before, now)]
            if None not in kinds and _family(kinds[0]) != _family(kinds[1]):
                texts = [kind.text for kind in kinds if kind is not None]
                raise ConfigurationError(
                    f"union() of the streams of {one.source_topic!r} and {stage.source_topic!r}: the column {name!r} "
                    f"is {texts[0]} in the first, and {texts[1]} in the other: cast one of them with with_column()."
                )


def _types(stage: StagePlan) -> dict[str, SqlType]:
    columns = columns_after(stage.schema, stage.steps) or {}
    # Two texts with parameters may be one type, such as DECIMAL(10,2) and DECIMAL(10, 2).
    return {name.lower(): kind for name, kind in columns.items() if kind is not None and kind.text == kind.name}


def _family(kind: SqlType | None) -> str:
    assert kind is not None
    return "an integer" if kind.name in ("TINYINT", "SMALLINT", "INT", "BIGINT") else kind.name
