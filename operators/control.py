"""What the operators over an application's control plane have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from airflow.sdk import BaseOperator, Context

from airflow_provider.control.conditions import Condition
from airflow_provider.errors import FencedError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.triggers.control import ControlTrigger, settle

if TYPE_CHECKING:
    from airflow_provider.control.publisher import AssignmentPublisher

__all__ = ["ControlOperator"]

T = TypeVar("T")
_TRIES: Final = 5


class ControlOperator(BaseOperator):
    """Base of the operators that act on one application.

    A deferred task can be marked failed although its trigger fired, so every one of these retries, and its
    ``execute`` can be run again: it finds what it did before and goes on from there.

    Args:
        application_id: the application.
        kafka_conn_id: connection of the Kafka cluster.
        deadline_s: how long a deferred wait may last, in seconds; None for ever.
        instance_timeout_s: silence of an instance that counts as its end, in seconds.
        start_timeout_s: the same while it starts.
        retries: as of every operator; 2 by default.
        retry_delay: as of every operator; 10 seconds by default.
    """

    template_fields: Sequence[str] = (
        "application_id",
        "kafka_conn_id",
        "deadline_s",
        "instance_timeout_s",
        "start_timeout_s",
    )
    ui_color = "#dbeafe"

    def __init__(
        self,
        *,
        application_id: str,
        kafka_conn_id: str = KafkaStreamsHook.default_conn_name,
        deadline_s: float | None = 600.0,
        instance_timeout_s: float = 5.0,
        start_timeout_s: float = 120.0,
        retries: int = 2,
        retry_delay: timedelta = timedelta(seconds=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.application_id = application_id
        self.kafka_conn_id = kafka_conn_id
        self.deadline_s = deadline_s
        self.instance_timeout_s = instance_timeout_s
        self.start_timeout_s = start_timeout_s

    @cached_property
    def hook(self) -> KafkaStreamsHook:
        """Over the application's topics and its control plane."""
        return KafkaStreamsHook(self.kafka_conn_id)

    def publish_by(
        self,
        act: Callable[[AssignmentPublisher], T],
        application_id: str | None = None,
        kafka_conn_id: str | None = None,
    ) -> T:
        """Let `act` read and publish; when another publisher took over meanwhile, let it read and publish again.

        Args:
            act: called with a publisher that has just read the newest state.
            application_id: another application than the operator's.
            kafka_conn_id: another cluster than the operator's.

        Raises:
            FencedError: others took over again and again.
            TopicMissingError: the application's topics do not exist.
            BrokerUnreachableError: no broker answered.
        """
        application_id = application_id or self.application_id
        hook = KafkaStreamsHook(kafka_conn_id or self.kafka_conn_id)
        for _ in range(_TRIES):
            try:
                with hook.publisher(application_id) as publisher:
                    return act(publisher)
            except FencedError:
                self.log.info("Another task publishes for %s: reading again", application_id)
        raise FencedError(
            f"{self.task_id} was fenced {_TRIES} times by other publishers of {application_id!r}: look for DAG runs "
            "that act on it, then try again."
        )

    def wait_for(self, condition: Condition, stop_on_kill: dict[str, Any] | None = None) -> NoReturn:
        """Free the worker until a condition is met; go on in `execute_complete`."""
        deadline_ms = None if self.deadline_s is None else int((time.time() + float(self.deadline_s)) * 1000)
        self.log.info("Waiting for %s", condition)
        self.defer(
            trigger=ControlTrigger(
                self.application_id,
                condition,
                kafka_conn_id=self.kafka_conn_id,
                deadline_ms=deadline_ms,
                instance_timeout_s=float(self.instance_timeout_s),
                start_timeout_s=float(self.start_timeout_s),
                stop_on_kill=stop_on_kill,
            ),
            method_name="execute_complete",
        )

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> Any:
        """Return the condition's result.

        Raises:
            InstanceError: it can not be met any more.
            DeadlineError: it was not met in time.
        """
        result = settle(event)
        self.log.info("Done: %s", result)
        return result
