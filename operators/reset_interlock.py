"""What keeps a reset from deleting what is needed."""

from __future__ import annotations

from typing import Any

from airflow_provider.bases.arguments import parse_optional
from airflow_provider.common.clock import now_ms
from airflow_provider.control.liveness import Timeouts, may_be_starting
from airflow_provider.control.view import ControlView
from airflow_provider.errors import ConfigurationError, TopicMissingError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook

__all__ = ["is_confirmed", "living_instances"]


def is_confirmed(application_id: str, typed: Any) -> bool:
    """Whether a person typed the application's id; not so where the field was left empty.

    Raises:
        ConfigurationError: something else was typed.
    """
    if (given := parse_optional(typed)) is None:
        return False
    if given != application_id:
        raise ConfigurationError(
            f"confirm is {given!r}, and the application is {application_id!r}, so nothing was deleted: type its id, or "
            "leave it empty to see what would go."
        )
    return True


def living_instances(hook: KafkaStreamsHook, application_id: str, timeouts: Timeouts) -> tuple[ControlView, list[str]]:
    """What the control topics hold, and the instances that live or may be starting, sorted.

    It listens for heartbeats as long as an instance may be silent. Where a control topic is missing, as after a reset
    that was interrupted, nothing is known of any.

    Args:
        hook: of the cluster.
        application_id: the application.
        timeouts: how long an instance may be silent.
    """
    try:
        with hook.reader(application_id) as reader:
            view = reader.read_to_end()
            alive = {name: status for name, status in view.statuses.items() if status.state.alive}
            starting = {name for name, status in alive.items() if may_be_starting(status, now_ms(), timeouts)}
            silent = reader.listen(lambda: alive.keys() - starting, timeouts.instance_s)
    except TopicMissingError:
        return ControlView(application_id), []
    return view, sorted(alive.keys() - silent)
