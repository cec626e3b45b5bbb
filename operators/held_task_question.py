"""Asks a person what to do with the tasks that have failed for good."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, cast

from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider.control.failover.open_problems import HeldTask, held_tasks
from airflow_provider.errors import DeadlineError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook

REPLAY: Final = "Replay them"
LEAVE: Final = "Leave them"

_ANSWER: Final = "answer"


class UnansweredError(DeadlineError, AirflowFailException):
    """A `DeadlineError`: nobody answered in time. There is no new try, which would ask the same again."""


class AskAboutHeldTasksOperator(HITLOperator):
    """Asks a person in Airflow's UI (*Required actions*) where tasks are held; is skipped where none is.

    A task is held where it failed for a reason that would meet it anywhere: a record that the job cannot process, a
    right that it lacks, a changed job. The question names each with its error. Waiting takes no worker and no
    triggerer (see https://airflow.apache.org/docs/apache-airflow/stable/tutorial/hitl.html).

    It is asked once, regardless of ``retries``: tries are for what goes wrong before it is asked, and for carrying an
    answer out, which they keep. A person who clears the task is asked anew. So is one whose answer was with a worker
    that was lost before it began: Airflow does not show a task what an earlier try was answered.

    Args:
        kafka_conn_id: its Kafka connection.
        notifiers: called with the task's context when the question is asked: Airflow's notifiers, or any callables. One
            that fails is a warning.
        execution_timeout: as of every operator: for the work of the task, not for a person's answer.
        kwargs: see `HITLOperator`, such as `assigned_users` and `response_timeout` (for ever).

    Returns:
        Arguments of a `ReplayChangelogOperator` for each instance that is to replay its held tasks: ``instance`` and
        ``tasks``. Empty where the person leaves them.

    Raises:
        UnansweredError: nobody answered within `response_timeout`. The tasks stay held.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = ("application_id", "kafka_conn_id", "subject")

    def __init__(
        self,
        *,
        application_id: str,
        kafka_conn_id: str = KafkaStreamsHook.default_conn_name,
        notifiers: Sequence[Callable[[Context], Any]] = (),
        execution_timeout: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            subject=f"Tasks of {application_id} are held",
            options=[REPLAY, LEAVE],
            notifiers=cast(Any, notifiers),
            execution_timeout=None,  # HITLOperator would take it for the time that a person has
            **kwargs,
        )
        self.execution_timeout = execution_timeout
        self.application_id = application_id
        self.kafka_conn_id = kafka_conn_id

    def execute(self, context: Context) -> Any:
        """Ask, where there is something to be asked and nobody has answered yet."""
        if (answer := context["task_state_store"].get(_ANSWER)) is not None:
            return self._carry_out(context, str(answer))
        held = self._held()
        if not held:
            raise AirflowSkipException(f"No task of {self.application_id!r} is held.")
        self.body = _body(held)
        self.log.info("%s", self.body)
        self.notifiers = cast(Any, [functools.partial(self._notify, notifier) for notifier in self.notifiers])
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> list[dict[str, Any]]:
        """What is to be replayed, by what is held now: an answer may come days later."""
        try:
            (answer,) = super().execute_complete(context, event)["chosen_options"]
        except HITLTimeoutError as error:
            raise UnansweredError(
                f"Nobody said within {self.response_timeout} what to do with the held tasks of "
                f"{self.application_id!r}. They stay held; clear this task to be asked again."
            ) from error
        # First of all: a try that fails after this must not ask again.
        context["task_state_store"].set(_ANSWER, answer)
        return self._carry_out(context, answer)

    def _carry_out(self, context: Context, answer: str) -> list[dict[str, Any]]:
        by_instance = defaultdict[str, list[str]](list)
        for held in self._held() if answer == REPLAY else ():
            by_instance[held.instance].append(str(held.task))
        context["task_state_store"].delete(_ANSWER)
        return [{"instance": instance, "tasks": tasks} for instance, tasks in by_instance.items()]

    def _notify(self, notifier: Callable[[Context], Any], context: Context) -> None:
        try:
            notifier(context)
        except Exception as error:  # whatever it is: the question stands
            self.log.warning("The question is asked, but %r was not told: %s", notifier, error)

    def _held(self) -> tuple[HeldTask, ...]:
        return held_tasks(KafkaStreamsHook(self.kafka_conn_id).read(self.application_id))


def _body(held: Sequence[HeldTask]) -> str:
    lines = [f"- **{one.task}** on {one.instance}: {' '.join(one.error.split())}" for one in held]
    return (
        "These tasks failed for a reason that would meet them on any instance, so they stand still where they are. "
        f"Correct the cause first (docs/faults.md has a row for it), then choose *{REPLAY}*: their stores are restored "
        f"from their changelogs, and they go on where they stopped. *{LEAVE}* ends this run red.\n\n" + "\n".join(lines)
    )
