"""Checks that an application is whole after a drill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context, XComArg

from airflow_provider.bases.arguments import parse_if_given, parse_seconds, parse_whole
from airflow_provider.common.json_codec import from_plain, to_plain
from airflow_provider.control.drills.readiness import redundancy_back
from airflow_provider.control.history.report import history_table
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.links.failover_run import FailoverRun, FailoverRunLink
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.drills.rehearsal import Conclusion


class CheckRecoveryOperator(ControlOperator):
    """Checks what a fault must not have broken, and reports what it cost.

    Every task runs on a living instance and has its warm standbys, by an assignment newer than the fault's, and
    certified where they were before: it waits for that. The next owners went on from the last commits, and have
    committed since. The commits in the changelog go on from one another, none by an owner after its successor. What the
    next owners did is in the incident's record, so a later try finds the same. A task without input since the
    fault is not measured, and named; where that is so of every task, the drill is not passed. The sink and the
    dead-letter topic hold as many records since the fault as the commits stand for, where that can be counted.

    How it ended goes into the application's history, at every try, under the fault's id. A history that cannot be
    written is an error, because a drill is there to leave a record.

    Args:
        fault: what `InjectFaultOperator` returned.
        num_standby_replicas: how many warm standbys a task must have.
        max_rto_s: seconds from the failure to the first commit of the last task's next owner; None sets no limit.
        store: of a job that was not described, in whose changelog the commits are looked at.
        kwargs: see `ControlOperator`.

    Returns:
        ``fault``, ``progress`` (input records by task since the fault), ``failover`` (a `FailoverReport`; None where
        nothing had to be answered), ``restores`` (of each copy that was restored, where nothing had to be answered) and
        ``outputs`` (an `OutputCheck`).

    Raises:
        StateError: an owner did not go on at the last commit, one wrote after its successor, records were counted
            twice, a task's source offset went back, or outputs are missing or doubled.
        InstanceError: a task failed, the failure has no record, a task with input has not committed since, or nothing
            was measured because no task had input.
        DeadlineError: the application was not whole in time.
        TopicMissingError: the application has no history.
        BrokerUnreachableError: no broker answered, or the history was not written in time.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields,
        "fault",
        "num_standby_replicas",
        "max_rto_s",
        "store",
    )
    operator_extra_links = (FailoverRunLink(),)

    def __init__(
        self,
        *,
        application_id: str,
        fault: Mapping[str, Any] | XComArg,
        num_standby_replicas: int = 1,
        max_rto_s: float | None = None,
        store: str = "state",
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.fault: Mapping[str, Any] = fault  # type: ignore[assignment]  # rendered before it is used
        self.num_standby_replicas = num_standby_replicas
        self.max_rto_s = max_rto_s
        self.store = store

    def execute(self, context: Context) -> Any:
        """Wait for the redundancy."""
        standbys = parse_whole("num_standby_replicas", self.num_standby_replicas)
        return self.wait_for(redundancy_back(self._fault(), standbys))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Compare the offsets, report, and note in the history how the drill ended."""
        from airflow_provider.control.drills.rehearsal import Rehearsal

        fault, error = self._fault(), None
        try:
            super().execute_complete(context, event)
        except StatefulStreamsError as found:
            error = found
        rehearsal = Rehearsal(
            cluster=self.hook.connection,
            application_id=self.application_id,
            run_id=str(context["run_id"]),
            store=self.store,
            max_rto_s=parse_if_given(parse_seconds, "max_rto_s", self.max_rto_s),
        )
        done = rehearsal.conclude(fault, error)
        self._say(done)
        if done.error is not None:
            raise done.error
        judged = done.judged
        return {
            "fault": dict(self.fault),
            "progress": {str(task): count for task, count in judged.progress.items()},
            "failover": None if judged.failover is None else to_plain(judged.failover),
            "restores": to_plain(judged.restores),
            "outputs": to_plain(done.outputs),
        }

    def _say(self, done: Conclusion) -> None:
        if done.answer is not None:
            self.linked_run = FailoverRun.of(done.answer)
        if (found := done.judged.failover) is not None:
            self.log.info("The drill's failover\n%s", found)
            if found.without_input:
                idle = ", ".join(map(str, found.without_input))
                self.log.warning("Not measured, because they had no input: %s", idle)
        if done.outputs is not None and done.outputs.unmeasured is not None:
            self.log.warning("Outputs were not counted: %s", done.outputs.unmeasured)
        self.log.info("In the history:\n%s", history_table([done.record]))

    def _fault(self) -> InjectedFault:
        return from_plain(dict(self.fault), InjectedFault)
