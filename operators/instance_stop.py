"""Stops an instance of an application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.bases.arguments import parse_flag
from airflow_provider.common.json_codec import from_plain
from airflow_provider.control.placement.moves import publish_hand_over
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.waiting.conditions import InstanceEnded
from airflow_provider.errors import InstanceError
from airflow_provider.links.instance_log import InstanceLogLink
from airflow_provider.operators.control import ControlOperator


class StopInstanceOperator(ControlOperator):
    """Asks an instance to shut down cleanly (commit, close its stores) and waits for that.

    Its tasks are handed over to the other running instances first, to warm standbys where there are any, as when an
    instance of Kafka Streams is closed. Where no other runs they stand still until it or another does. Without
    `hand_over` they stay its own and stand still until it runs again. One that is stopped already is left alone.

    Args:
        hand_over: whether others get its tasks.
        timeout_s: how long the shutdown may take, in seconds.
        kwargs: see `ControlOperator`.

    Returns:
        The handle of the stopped instance.

    Raises:
        FencedError: other publishers took over again and again.
        InstanceError: there is no such instance, or it ended otherwise.
        DeadlineError: it did not stop in time.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance", "hand_over")
    operator_extra_links = (InstanceLogLink(),)

    def __init__(
        self,
        *,
        application_id: str,
        instance: str,
        hand_over: bool | str = True,
        timeout_s: float | str | None = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        self.instance = instance
        self.hand_over = hand_over

    def execute(self, context: Context) -> Any:
        """Hand over, command and wait."""
        status = self.hook.read(self.application_id).statuses.get(self.instance)
        if status is None:
            raise InstanceError(
                f"No status of instance {self.instance!r} of {self.application_id!r} is on record: correct its name."
            )
        self.linked_instance = InstanceHandle.of(status)
        others = parse_flag("hand_over", self.hand_over)
        if others:
            self.publish_by(lambda publisher: publish_hand_over(publisher, self.instance, self.timeouts))
        if status.state.alive:
            stop = Command(
                id=f"stop/{context['run_id']}/{self.task_id}/{status.incarnation}",
                kind=CommandKind.STOP,
                instance=self.instance,
                incarnation=status.incarnation,
                hand_over=others,
            )
            self.hook.write(self.application_id, stop)
        return self.wait_for(InstanceEnded(self.instance, status.incarnation))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the handle, and link what it names."""
        handle: dict[str, Any] = super().execute_complete(context, event)
        self.linked_instance = from_plain(handle, InstanceHandle)
        return handle
