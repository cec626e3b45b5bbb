"""Whether the streams of a union have columns of the same types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.language.column_check import columns_after
from airflow_provider.streaming.planner.stage_plan import StagePlan


def check_union(
    first: str, first_types: Mapping[str, str | None], other: str, other_types: Mapping[str, str | None]
) -> None:
    """Refuse two streams that come together in an internal topic with a column of two types.

    A record says nothing of its columns' types: what is behind the topic takes those of the first stream for all.

    Args:
        first: the topic that the first stream reads.
        first_types: the types of what it writes, the key's among them, in the words of a schema; None for one that is
            not known.
        other: the topic of the other stream.
        other_types: the same of the other one.

    Raises:
        ConfigurationError: a column has two types.
    """
    for name, kind in first_types.items():
        now = other_types[name]
        if kind is not None and now is not None and kind != now:
            raise ConfigurationError(
                f"union() of the streams of {first!r} and {other!r}: the column {name!r} is {kind} in the first, and "
                f"{now} in the other: cast one of them with with_column()."
            )


def check_unions(stages: Sequence[StagePlan]) -> None:
    """Refuse what is seen without Spark, where the job is written: columns of plain types that no step computes.

    The others `compile_job` compares.

    Raises:
        ConfigurationError: a column of two streams of a union has two types.
    """
    first = dict[tuple[str | None, int | None], StagePlan]()
    for stage in stages:
        if stage.feeds and not stage.internal:
            one = first.setdefault((stage.output_topic, stage.operation.side_written), stage)
            check_union(one.source_topic, _types(one), stage.source_topic, _types(stage))


def _types(stage: StagePlan) -> dict[str, str | None]:
    columns = columns_after(stage.schema, stage.steps) or {}
    # Two texts with parameters may be one type, such as DECIMAL(10,2) and DECIMAL(10, 2).
    plain = {name.lower(): kind.text for name, kind in columns.items() if kind is not None and kind.text == kind.name}
    return {name: plain.get(name.lower()) for name in (stage.key, *stage.operation.columns)}
