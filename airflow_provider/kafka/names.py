"""The names that an application's id gives to its topics and ids (``<app>-<store>-changelog`` as in Kafka Streams)."""

from __future__ import annotations

import re
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError

# Kafka allows 249 characters of these in a topic; the rest is left for the store's name and the suffix.
NAME_PATTERN: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
"""Regular expression of an application's, an instance's or a store's whole name."""

ERROR_HEADER: Final = "__streams.errors."
"""How the name of each header of a dead letter begins that says why the record was left out."""

_NAME: Final = re.compile(NAME_PATTERN)
_TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")


def check_name(what: str, name: str) -> str:
    """Give `name` back if it can be part of a topic and of a folder.

    Raises:
        ConfigurationError: it has other characters than letters, digits, ``.``, ``_`` and ``-``, or over 100 of them.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{what} {name!r} cannot name a topic and a folder: use 1 to 100 letters, digits, '.', '_' or '-', "
            "beginning with a letter or digit."
        )
    return name


def check_topic(method: str, topic: str) -> None:
    """Refuse what no topic of Kafka can be named.

    Raises:
        ConfigurationError: it is empty, ``.``, ``..``, too long, or has another character.
    """
    if not _TOPIC.fullmatch(topic):
        raise ConfigurationError(
            f"{method} names the topic {topic!r}, which Kafka cannot have: use 1 to 249 letters, digits, '.', '_' or "
            "'-', and not '.' or '..' alone."
        )


def changelog_topic(application_id: str, store: str) -> str:
    """The compacted topic with every change to a store."""
    return f"{application_id}-{store}-changelog"


def commits_topic(application_id: str, stage: int) -> str:
    """The compacted topic with the newest commit of each task of a stage that has no store."""
    return f"{application_id}-{stage}-commits"


def repartition_topic(application_id: str, name: str) -> str:
    """The topic by which rows go to another stage, under another key."""
    return f"{application_id}-{name}-repartition"


def assignment_topic(application_id: str) -> str:
    """The compacted topic with the newest assignment and the commands to each instance."""
    return f"{application_id}-assignment"


def status_topic(application_id: str) -> str:
    """The compacted topic with each instance's newest heartbeat, its deployment, and the incidents."""
    return f"{application_id}-status"


def history_topic(application_id: str) -> str:
    """The compacted topic with a record of each drill, failover, restore and upgrade."""
    return f"{application_id}-history"


def metrics_topic(application_id: str) -> str:
    """The topic with a record of each instance's figures for every minute of the last week."""
    return f"{application_id}-metrics"


def lookups_topic(application_id: str) -> str:
    """The topic with the questions for what stores hold of a key, and their answers, of the last minutes."""
    return f"{application_id}-lookups"


def transactional_id(application_id: str, task: TaskId) -> str:
    """Of the one producer that may write for a task; a later owner's `init_transactions` fences the earlier."""
    return f"{application_id}-{task}"


def stage_transactional_ids(application_id: str, stage: int) -> str:
    """How the ids of a stage's tasks begin, and no other: see `transactional_id`."""
    return f"{application_id}-{stage}_"


def publisher_transactional_id(application_id: str) -> str:
    """Of the one producer that may publish assignments."""
    return f"{application_id}-assignment"
