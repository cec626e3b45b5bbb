"""What is wrong with an application's topics, with the command that repairs it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from airflow_provider.common.clock import now_ms
from airflow_provider.control.application.topic_repair import find_described_problems
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_findings import TopicFinding

_UNDESCRIBED = (
    "The job was not described, so which topics it needs is not known here: ask with 'stateful-streams topics verify', "
    "which is given their names."
)


def known_topic_findings(connection: KafkaConnection, view: ControlView) -> dict[str, Any]:
    """What `topics verify` finds, as that asks it; where that cannot be asked, the ``problem``."""
    found: Sequence[TopicFinding] = ()
    problem = _UNDESCRIBED if view.job is None else None
    try:
        if view.job is not None:
            found = find_described_problems(TopicAdmin(connection), view, view.job)
    except StatefulStreamsError as error:
        problem = str(error)
    command = shlex.join(["stateful-streams", "topics", "repair", view.application_id, "--apply"])
    return {
        "at_ms": now_ms(),
        "problem": problem,
        "findings": [
            {
                "topic": one.topic,
                "problem": one.problem,
                "fix": one.fix,
                "command": None if one.repair is None else f"{command}    # {one.repair}",
            }
            for one in found
        ],
    }
