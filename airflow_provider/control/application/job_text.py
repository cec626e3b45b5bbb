"""What a job is made of, as text."""

from __future__ import annotations

from airflow_provider.common.table import table_lines
from airflow_provider.control.records.job_description import JobDescription, JobTopic

__all__ = ["description_text"]


def description_text(job: JobDescription) -> str:
    """Lines for people: a paragraph for each stage, a table of the topics, and what an earlier version left."""
    lines = [job.application_id, ""]
    for stage in job.stages:
        tasks = "" if stage.partitions is None else f", {stage.partitions} task{'' if stage.partitions == 1 else 's'}"
        lines += [f"stage {stage.number}: {stage.name}{tasks}", f"  reads   {stage.source}"]
        lines += [f"  step    {step}" for step in stage.steps]
        lines += [f"  key     {stage.key}", f"  does    {stage.operation}"]
        lines.append(f"  store   {stage.store}" if stage.store is not None else "  store   none")
        lines += [f"  writes  {topic}" for topic in stage.outputs]
        lines.append("")
    rows = [(topic.name, topic.kind.value, str(topic.stage), _partitions(topic)) for topic in job.topics]
    lines += table_lines(("topic", "kind", "stage", "partitions"), rows)
    if job.gone:
        lines += ["", "of an earlier version, deleted by a reset only:", *(f"  {name}" for name in job.gone)]
    return "\n".join(lines)


def _partitions(topic: JobTopic) -> str:
    if topic.partitions is not None:
        return str(topic.partitions)
    return "as it has" if topic.like is None else f"as {topic.like}"
