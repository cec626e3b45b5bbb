"""Lists what is to be repaired after failovers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.bases.arguments import parse_whole
from airflow_provider.common.json_codec import from_plain, to_plain
from airflow_provider.control.failover_answer import FailoverAnswer
from airflow_provider.control.repair import Repair
from airflow_provider.errors import ConfigurationError
from airflow_provider.operators.control import ControlOperator

__all__ = ["ListRepairsOperator"]


class ListRepairsOperator(ControlOperator):
    """Lists a repair for each incident that was answered and is not resolved.

    The incidents are those of the failover runs whose events started this run, of several applications too. A run that
    was started by hand takes every unresolved one of `application_id`.

    Args:
        application_id: for a run that was started by hand: the application.
        instance: for a run that was started by hand: only this instance.
        num_standby_replicas: for a run that was started by hand: wanted standbys per task.
        kwargs: see `ControlOperator`.

    Returns:
        A list with a `Repair`, as plain values, for each incident.

    Raises:
        ConfigurationError: neither an event nor an application names what to repair.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance", "num_standby_replicas")

    def __init__(
        self,
        *,
        application_id: str | None = None,
        instance: str | None = None,
        num_standby_replicas: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id or "", **kwargs)
        self.instance = instance
        self.num_standby_replicas = num_standby_replicas

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Look into the events, or into the status topic."""
        answers = list(_answers(context)) or self._unresolved()
        repairs = {(answer.application_id, answer.incident_id): Repair.of(answer) for answer in answers}
        for repair in repairs.values():
            self.log.info("To repair: %s of %s (%s)", repair.instance, repair.application_id, repair.incident_id)
        return [to_plain(repair) for repair in repairs.values()]

    def _unresolved(self) -> list[FailoverAnswer]:
        if not self.application_id:
            raise ConfigurationError(
                "No failover started this run, and it names no application: give 'application_id' when you start it "
                "by hand."
            )
        view = self.hook.read(self.application_id)
        return [
            FailoverAnswer.of(
                record,
                view.assignment,
                self.kafka_conn_id,
                parse_whole("num_standby_replicas", self.num_standby_replicas),
            )
            for record in view.unresolved_incidents
            if view.assignment is not None and (not self.instance or record.incident.instance == self.instance)
        ]


def _answers(context: Context) -> Iterator[FailoverAnswer]:
    """Those of the failover runs whose events started this run."""
    for events in context["triggering_asset_events"].values():
        for event in events:
            for plain in event.extra.get("answers", ()):
                yield from_plain(plain, FailoverAnswer)
