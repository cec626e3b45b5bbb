"""Deletes all that an application has in Kafka, or lists it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.bases.arguments import parse_flag, parse_names
from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.application_reset import plan_reset
from airflow_provider.errors import InstanceError
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.reset_interlock import is_confirmed, living_instances

__all__ = ["ResetApplicationOperator"]


class ResetApplicationOperator(ControlOperator):
    """Deletes an application's changelogs and control topics, so that its next deployment begins with nothing.

    It lists what it deletes, and does so only where `confirm` is the application's id; without `confirm` it ends with
    the list. It refuses while an instance lives. Its source and output topics stay, and so does its history unless
    `delete_history` says otherwise. Remove the instances' stores first (`RemoveStateOperator`): a new application would
    refuse them, because its topics have other ids.

    Tried again after it was interrupted, it deletes what is left.

    Args:
        application_id: the application.
        confirm: the application's id, typed by a person; empty deletes nothing.
        stores: the names of its job's stores.
        delete_history: whether what is remembered of drills and failovers goes too.
        kwargs: see `ControlOperator`.

    Returns:
        ``topics``, ``state`` (by instance the host and the folder of its stores), ``records`` (of the control topics,
        by kind) and whether they were ``deleted``.

    Raises:
        InstanceError: an instance lives, or may be starting.
        ConfigurationError: `confirm` is something else.
        TopicMismatchError: a changelog may be another application's.
        BrokerUnreachableError: no broker answered, or one did not delete a topic in time.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "confirm", "stores", "delete_history")

    def __init__(
        self,
        *,
        application_id: str,
        confirm: str | None = None,
        stores: str | Sequence[str] = ("state",),
        delete_history: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.confirm = confirm
        self.stores = stores
        self.delete_history = delete_history

    def execute(self, context: Context) -> dict[str, Any]:
        """List, and delete what was listed."""
        from airflow_provider.kafka.application_topics import refuse_those_of_others

        confirmed = is_confirmed(self.application_id, self.confirm)
        topics, stores = self.hook.topics(), parse_names("stores", self.stores)
        refuse_those_of_others(topics, self.application_id, stores)
        view, living = living_instances(self.hook, self.application_id, self.timeouts)
        plan = plan_reset(
            view, topics.names(), stores, delete_history=parse_flag("delete_history", self.delete_history)
        )
        self.log.info("A reset of %s deletes:\n%s", self.application_id, plan)
        if living:
            raise InstanceError(
                f"{', '.join(living)} of {self.application_id!r} lives, so nothing was deleted: stop every instance "
                "first."
            )
        if confirmed:
            topics.delete(plan.topics)
            self.log.info("Deleted %d topics", len(plan.topics))
        else:
            self.log.info("Nothing was deleted: give the application's id as 'confirm' to do it.")
        return {**to_plain(plan), "deleted": confirmed}
