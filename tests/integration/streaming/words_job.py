"""Word count as two stages, planned by hand: the words of each line, and how often each was there.

Arguments: the application id, and whether to combine before the repartition.
"""

import sys

from airflow_provider.kafka.names import repartition_topic
from airflow_provider.streaming import StatefulJob, run
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.operations.aggregate import Aggregation
from airflow_provider.streaming.operations.merge_aggregation import MergeAggregation
from airflow_provider.streaming.operations.partial_aggregation import PartialAggregation
from airflow_provider.streaming.operations.repartition import Repartition
from airflow_provider.streaming.planner import stage_plans
from airflow_provider.streaming.planner.stage_plan import StagePlan
from airflow_provider.streaming.steps import Filter, WithColumn

PARTITIONS = 3
"""Of the repartition topic."""
COUNT = (F.count().alias("count"), F.max("long").alias("long"))


def plans_of(application_id: str, combine: bool) -> tuple[StagePlan, ...]:
    """The job's stages."""
    between = repartition_topic(application_id, "counts")
    first = StagePlan(
        number=0,
        name="words",
        source_topic=f"{application_id}-lines",
        schema="line STRING",
        # A line without a word has one row all the same, which the filter drops and counts.
        steps=(
            WithColumn("word", "explode_outer(split(line, ' '))"),
            Filter("word <> ''", "empty"),
            WithColumn("long", "length(word)"),
        ),
        key="word",
        operation=PartialAggregation(COUNT) if combine else Repartition(("long",)),
        store=None,
        output_topic=between,
        output_partitions=PARTITIONS,
    )
    second = StagePlan(
        number=1,
        name="counts",
        source_topic=between,
        internal=True,
        key="word",
        operation=MergeAggregation(COUNT) if combine else Aggregation(COUNT),
        store="counts",
        output_topic=f"{application_id}-word-counts",
    )
    return first, second


if __name__ == "__main__":
    PLANS = plans_of(sys.argv[1], sys.argv[2] == "combined")
    # Until the language has the words for it.
    stage_plans.stage_plans = lambda job: PLANS
    run(
        StatefulJob(sys.argv[1])
        .source(f"{sys.argv[1]}-lines", schema="line STRING", max_offsets_per_trigger=2_000)
        .group_by("line")
        .aggregate(*COUNT[:1])
    )
