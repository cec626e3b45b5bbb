"""Whether the topics that a job names can be told apart: before Spark starts."""

from __future__ import annotations

import itertools

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import assignment_topic, changelog_topic, history_topic, metrics_topic, status_topic

__all__ = ["check_topics"]


def check_topics(
    application_id: str, store: str, *, source: str, sink: str | None = None, dead_letter: str | None = None
) -> None:
    """Refuse a job that would read what it writes, or write two kinds of records into one topic.

    Args:
        application_id: of the job.
        store: its store's name.
        source: the topic that it reads.
        sink: where its output goes; None for nowhere.
        dead_letter: where its dead letters go; None for nowhere.

    Raises:
        ConfigurationError: two of them are one topic, or one is a topic that the application keeps for itself.
    """
    named = [("source()", source), ("sink()", sink), ("on_error()", dead_letter)]
    own = {
        changelog_topic(application_id, store): f"the changelog of its store {store!r}",
        assignment_topic(application_id): "its assignment topic",
        status_topic(application_id): "its status topic",
        history_topic(application_id): "its history",
        metrics_topic(application_id): "its metrics topic",
    }
    for method, topic in named:
        if topic in own:
            raise ConfigurationError(
                f"{method} of job {application_id!r} names the topic {topic!r}, which is {own[topic]}: only the "
                "application itself may write there. Name another topic."
            )
    for (one, topic), (other, same) in itertools.combinations(named, 2):
        if topic is not None and topic == same:
            why = (
                "the job would read again what it writes, without end"
                if one == "source()"
                else "readers of the output could not tell it from the records that were left out"
            )
            raise ConfigurationError(
                f"{one} and {other} of job {application_id!r} name the same topic {topic!r}: {why}. Name two topics."
            )
