"""What an application reads and writes, for OpenLineage: Airflow's provider for it asks, where that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_provider.control.records.job_description import JobDescription, TopicKind, TopicRows

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors.base import OperatorLineage
    from openlineage.client.facet_v2 import DatasetFacet

_NOT_KNOWN: Final = "Made in a way that is not known: any column of the sources may be in it."


def lineage_of_job(bootstrap_servers: str, job: JobDescription | None) -> OperatorLineage[Any, Any]:
    """The sources of a job as inputs, and its sinks and dead letters as outputs, by OpenLineage's names for Kafka.

    Args:
        bootstrap_servers: comma-separated; the first one names the cluster, as for Spark's own integration.
        job: None where it is not known, which says nothing.
    """
    from airflow.providers.openlineage.extractors.base import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset

    if job is None:
        return OperatorLineage()
    namespace = _namespace(bootstrap_servers)
    read, written = job.names(TopicKind.SOURCE), job.names(TopicKind.SINK, TopicKind.DEAD_LETTERS)
    facets = {topic: _facets(namespace, job.rows.get(topic)) for topic in (*read, *written)}
    return OperatorLineage(
        inputs=[InputDataset(namespace, topic, facets=facets[topic]) for topic in read],
        outputs=[OutputDataset(namespace, topic, facets=facets[topic]) for topic in written],
    )


def _namespace(bootstrap_servers: str) -> str:
    server = bootstrap_servers.split(",")[0].strip().rpartition("://")[2]
    return f"kafka://{server}" if server.rpartition(":")[2].isdigit() else f"kafka://{server}:9092"


def _facets(namespace: str, rows: TopicRows | None) -> dict[str, DatasetFacet]:
    from openlineage.client.facet_v2 import column_lineage_dataset, schema_dataset

    if rows is None or not rows.columns:
        return {}
    schema = schema_dataset.SchemaDatasetFacet(
        fields=[
            schema_dataset.SchemaDatasetFacetFields(
                name, kind or None, _NOT_KNOWN if rows.sources and name not in rows.made_of else None
            )
            for name, kind in rows.columns.items()
        ]
    )
    fields = {
        column: column_lineage_dataset.Fields(
            inputFields=[
                column_lineage_dataset.InputField(namespace, topic, field)
                for topic, names in by_topic.items()
                for field in names
            ]
        )
        for column, by_topic in rows.made_of.items()
        if by_topic
    }
    return {"schema": schema} | (
        {"columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields)} if fields else {}
    )
