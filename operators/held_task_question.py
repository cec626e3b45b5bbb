"""Asks a person what becomes of the tasks that have failed for good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import BaseNotifier, Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.control.held_tasks import HeldTask, held_tasks
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook

__all__ = ["LEAVE", "REPLAY", "AskAboutHeldTasksOperator"]

REPLAY: Final = "Replay them"
LEAVE: Final = "Leave them"


class AskAboutHeldTasksOperator(HITLOperator):
    """Asks a person in Airflow's UI (*Required actions*) where tasks are held; is skipped where none is.

    A task is held where it failed for a reason that would meet it anywhere: a record that the job cannot process, a
    right that it lacks, a changed job. The question names each with its error. Waiting takes no worker and no
    triggerer (see https://airflow.apache.org/docs/apache-airflow/stable/tutorial/hitl.html).

    Args:
        application_id: the application.
        kafka_conn_id: its Kafka connection.
        notifiers: called with the task's context when the question is asked.
        kwargs: see `HITLOperator`, such as `assigned_users` and `response_timeout` (for ever).

    Returns:
        Arguments of a `ReplayChangelogOperator` for each instance that is to replay its held tasks: ``instance`` and
        ``tasks``. Empty where the person leaves them.

    Raises:
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = ("application_id", "kafka_conn_id", "subject")

    def __init__(
        self,
        *,
        application_id: str,
        kafka_conn_id: str = KafkaStreamsHook.default_conn_name,
        notifiers: Sequence[BaseNotifier] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(
            subject=f"Tasks of {application_id} are held",
            options=[REPLAY, LEAVE],
            notifiers=notifiers,
            **kwargs,
        )
        self.application_id = application_id
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> Any:
        """Ask, where there is something to be asked."""
        held = self._held()
        if not held:
            raise AirflowSkipException(f"No task of {self.application_id!r} is held.")
        self.body = _body(held)
        self.log.info("%s", self.body)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> list[dict[str, Any]]:
        """What is to be replayed, by what is held now: an answer may come days later."""
        answer = super().execute_complete(context, event)
        if answer["chosen_options"] != [REPLAY]:
            return []
        by_instance = defaultdict[str, list[str]](list)
        for held in self._held():
            by_instance[held.instance].append(str(held.task))
        return [{"instance": instance, "tasks": tasks} for instance, tasks in by_instance.items()]

    def _held(self) -> tuple[HeldTask, ...]:
        return held_tasks(KafkaStreamsHook(self.kafka_conn_id).read(self.application_id))


def _body(held: Sequence[HeldTask]) -> str:
    lines = [f"- **{one.task}** on {one.instance}: {' '.join(one.error.split())}" for one in held]
    return (
        "These tasks failed for a reason that would meet them on any instance, so they stand still where they are. "
        f"Mend the cause first (docs/faults.md has a row for it), then choose *{REPLAY}*: their stores are restored "
        f"from their changelogs, and they go on where they stopped. *{LEAVE}* ends this run red.\n\n" + "\n".join(lines)
    )
