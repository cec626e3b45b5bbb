"""What the operators over an application's control plane have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowRuntimeError, AirflowSkipException, ErrorType

from airflow_provider.bases.arguments import parse_optional
from airflow_provider.bases.deferrable_control import DeferrableControl
from airflow_provider.common.clock import now_ms
from airflow_provider.control.history.builder import note_history
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.kafka.names import assignment_topic, metrics_topic, status_topic

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors.base import OperatorLineage

    from airflow_provider.control.records.history import HistoryRecord
    from airflow_provider.control.topics.publisher import AssignmentPublisher


T = TypeVar("T")
_OUTCOME: Final = "stateful_streams_outcome"
_OUTCOME_CHARS: Final = 250


class ControlOperator(DeferrableControl):
    """Base of the operators that act on one application.

    Its ``execute`` can be run again: it finds what it did before and goes on from there.

    Args:
        kwargs: ``application_id`` and the others of `DeferrableControl`.
    """

    ui_color = "#dbeafe"

    @cached_property
    def hook(self) -> KafkaStreamsHook:
        """Over the application's topics and its control plane."""
        return KafkaStreamsHook(self.kafka_conn_id)

    def publish_by(self, act: Callable[[AssignmentPublisher], T], *, look: bool = True) -> T:
        """As `control.topics.publisher.publish_by`, for this application."""
        from airflow_provider.control.topics.publisher import publish_by

        return publish_by(self.hook.connection, self.application_id, act, look=look)

    def show_outcome(self, context: Context, line: str) -> None:
        """Have Airflow's lists of task instances say what this one came to, in the column *Map Index*.

        It is the one text that a task can give itself there: a task may set neither its run's id nor its run's note.
        What the owner of the DAG wants there (``map_index_template``) stays.

        Args:
            context: of the try.
            line: what to say; cut where it is longer than Airflow's column.
        """
        given = cast("dict[str, Any]", context)
        if given.get("map_index_template") is None:
            given |= {"map_index_template": f"{{{{ {_OUTCOME} }}}}", _OUTCOME: line[:_OUTCOME_CHARS]}

    def task_of_run(self, context: Context) -> str:
        """The id of this task in this run, the same for all tries, as that of an event in the history."""
        return f"{self.dag_id}/{context['run_id']}/{self.task_id}/{context['ti'].map_index}"

    def note_history(self, records: Iterable[HistoryRecord]) -> bool:
        """As `history.builder.note_history` does; the warning goes to the task's log."""
        return note_history(self.hook.write_history, self.application_id, records, warn=self.log.warning)

    def end_history(self, kind: HistoryKind, id: str, reason: str | None = None) -> None:
        """Note in the history how something ended that has a record there; what cannot be written is a warning.

        Args:
            kind: of the record.
            id: of the record; where there is none, nothing is written.
            reason: why it failed; None where it did not.
        """
        try:
            records = self.hook.read_history(self.application_id, kind=kind)
        except Exception as error:  # whatever it is: what was done is done
            self.log.warning("The history of %s is not known: %s", self.application_id, error)
            return
        outcome = HistoryOutcome.PASSED if reason is None else HistoryOutcome.FAILED
        for record in records:
            if record.id == id:
                self.note_history([dataclasses.replace(record, outcome=outcome, reason=reason, ended_at_ms=now_ms())])


class ControlLineageOperator(ControlOperator):
    """Base of those whose events of OpenLineage have the application's topics as datasets.

    Airflow's provider for OpenLineage, where it is installed and set up, asks at the start and the end of each try.
    Else nothing of this is called, and nothing of OpenLineage imported.
    """

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Sources and sinks of the job as Kafka keeps it; none where it is not known, as before it is deployed."""
        from airflow_provider.hooks.openlineage import lineage_of_job

        try:
            job = self.hook.read(self.application_id).job
        except StatefulStreamsError as error:
            self.log.info("No lineage of %s is told: %s", self.application_id, error)
            job = None
        return lineage_of_job(self.hook.connection.bootstrap_servers, job)

    def get_openlineage_facets_on_complete(self, task_instance: object) -> OperatorLineage[Any, Any]:
        """The same, as it is then; of a try that failed, too."""
        return self.get_openlineage_facets_on_start()


def skip_before_deployment(hook: KafkaStreamsHook, application_id: str, deploy_dag_id: str | None) -> None:
    """Skip the task, naming the DAG that deploys the application, where none of its tasks was ever assigned.

    An application of which any topic of its own is there, and others are not, was deployed: that is no reason to skip.

    Args:
        deploy_dag_id: the DAG that deploys it; None, also as a template renders it, skips nothing.

    Raises:
        AirflowSkipException: it is to be deployed first.
    """
    if (dag_id := parse_optional(deploy_dag_id)) is None or _was_deployed(hook, application_id):
        return
    raise AirflowSkipException(
        f"{application_id!r} is not deployed yet: run the DAG {dag_id!r}. Nothing is checked before."
    )


def _was_deployed(hook: KafkaStreamsHook, application_id: str) -> bool:
    admin = hook.topics()
    own = (assignment_topic(application_id), status_topic(application_id), metrics_topic(application_id))
    if not any(admin.describe(topic) is not None for topic in own):
        return False
    view = hook.read(application_id)
    # Before the first assignment no instance carries one out; after a loss of that topic, some do.
    return view.assignment is not None or any(status.generation for status in view.statuses.values())


def failover_dag_problem(context: Context, dag_id: str, asset: str | None = None) -> str | None:
    """What is wrong with it, in one line; None where nothing is.

    A task is told of a DAG whether it is paused, not whether it is stale or its file does not parse. Of an asset it is
    told whether it is active. Airflow ends that for the asset of a stale DAG, but some minutes later, and only when it
    cleans up after a DAG file that is gone.

    Args:
        context: of the running task.
        dag_id: of the DAG that answers the failures of the application.
        asset: the name of the one whose events start that DAG; None does not ask.
    """
    try:
        paused = context["ti"].get_dag(dag_id).is_paused
    except AirflowRuntimeError as error:
        return f"whether failover DAG {dag_id!r} is unpaused could not be found out ({error}): correct its id."
    if paused:
        return f"failover DAG {dag_id!r} is paused, so no failure is answered: unpause it."
    return None if asset is None else _asset_problem(context, dag_id, asset)


def _asset_problem(context: Context, dag_id: str, asset: str) -> str | None:
    try:
        # Only looked up, by the API server: this run need not have been started by any event.
        context["triggering_asset_events"].for_asset(name=asset)
    except KeyError:
        return None
    except AirflowRuntimeError as error:
        if error.error.error is not ErrorType.ASSET_NOT_FOUND:
            return f"whether asset {asset!r} of failover DAG {dag_id!r} is active could not be found out ({error})."
        return (
            f"asset {asset!r} is not active, so failover DAG {dag_id!r} is stale or its file does not parse, and no "
            "failure is answered: look at `airflow dags list-import-errors`."
        )
    return None
