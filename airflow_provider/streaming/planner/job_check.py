"""Whether the topics that a job names can be told apart: before Spark starts."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import (
    assignment_topic,
    changelog_topic,
    commits_topic,
    history_topic,
    metrics_topic,
    status_topic,
)
from airflow_provider.streaming.planner.stage_plan import StagePlan


def check_sinks(application_id: str, topics: Sequence[str]) -> None:
    """Refuse two sinks of one topic, before what follows from it: that their stores would have one name, too.

    Args:
        application_id: of the job.
        topics: of its sinks.

    Raises:
        ConfigurationError: two are one.
    """
    for at, topic in enumerate(topics):
        if topic in topics[:at]:
            raise ConfigurationError(
                f"Two sinks of job {application_id!r} name the same topic {topic!r}: readers could not tell the "
                "records of one branch from those of the other. Name two topics."
            )


def check_topics(
    application_id: str,
    stages: Sequence[StagePlan],
    sinks: Sequence[str],
    dead_letter: str | None,
) -> None:
    """Refuse a job that would read what it writes, or write two kinds of records into one topic.

    Args:
        application_id: of the job.
        sinks: the topics that the user names for what comes out.
        dead_letter: where its dead letters go; None for nowhere.

    Raises:
        ConfigurationError: two of them are one topic, or one is a topic that the application keeps for itself.
    """
    sources = dict.fromkeys(stage.source_topic for stage in stages if not stage.internal)
    named = [
        *(("stream()", topic) for topic in sources),
        *(("sink()", topic) for topic in sinks),
        ("on_error()", dead_letter),
    ]
    own = _own(application_id, stages)
    for method, topic in named:
        if topic in own:
            raise ConfigurationError(
                f"{method} of job {application_id!r} names the topic {topic!r}, which is {own[topic]}: only the "
                "application itself may write there. Name another topic."
            )
    seen = dict[str, str]()
    for method, topic in named:
        if topic is None:
            continue
        if topic in seen:
            raise ConfigurationError(_same(application_id, seen[topic], method, topic))
        seen[topic] = method


def _own(application_id: str, stages: Sequence[StagePlan]) -> dict[str, str]:
    """The topics that the application keeps for itself, each with what it is."""
    stores = [stage.store for stage in stages if stage.store is not None]
    return {
        **{changelog_topic(application_id, store): f"the changelog of its store {store!r}" for store in stores},
        **{
            commits_topic(application_id, stage.number): f"the commits topic of its stage {stage.number}"
            for stage in stages
            if stage.store is None
        },
        **{stage.source_topic: f"the internal topic of its stage {stage.number}" for stage in stages if stage.internal},
        assignment_topic(application_id): "its assignment topic",
        status_topic(application_id): "its status topic",
        history_topic(application_id): "its history",
        metrics_topic(application_id): "its metrics topic",
    }


def _same(application_id: str, one: str, other: str, topic: str) -> str:
    why = (
        "readers of the output could not tell it from the records that were left out"
        if one == "sink()"
        else "the job would read again what it writes, without end"
    )
    return f"{one} and {other} of job {application_id!r} name the same topic {topic!r}: {why}. Name two topics."
