"""Checks that an application is whole after a drill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from airflow.sdk import Context, XComArg

from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import from_plain, to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.commit import Commit
from airflow_provider.control.drill_fault import InjectedFault
from airflow_provider.control.drills.judgement import answer_to, judge_when_measured, judged_record
from airflow_provider.control.drills.outputs import check_outputs
from airflow_provider.control.drills.waits import redundancy_back
from airflow_provider.control.history.output_check import OutputCheck
from airflow_provider.control.history.table import history_table
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.links.failover_run import FailoverRun, FailoverRunLink
from airflow_provider.operators.arguments import parse_if_given, parse_seconds, parse_whole
from airflow_provider.operators.control import ControlOperator

__all__ = ["CheckRecoveryOperator"]


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
        application_id: the application.
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
        by, outputs = str(context["run_id"]), None
        try:
            super().execute_complete(context, event)
            fault = self._fault()
            commits = self.hook.read_commits(self.application_id, self.store, fault.positions)
            checked = self._check(commits)
            since = chain.from_iterable(commits.values())
            outputs = self.hook.count_outputs(self.application_id, self.store, fault.outputs, since)
            check_outputs(outputs)
        except StatefulStreamsError as error:
            try:
                self._note(by, error, outputs)
            except StatefulStreamsError as why:
                self.log.error("Not in the history: %s", why)
            raise
        if outputs.unmeasured is not None:
            self.log.warning("Outputs were not counted: %s", outputs.unmeasured)
        self._note(by, None, outputs)
        return checked | {"outputs": to_plain(outputs)}

    def _note(self, by: str, error: StatefulStreamsError | None, outputs: OutputCheck | None) -> None:
        view = self.hook.read(self.application_id)
        if (answer := answer_to(self._fault(), view)) is not None:
            self.linked_run = FailoverRun.of(answer)
        drill = judged_record(view, self._fault(), by, error, self._limit_s, now_ms(), outputs)
        self.hook.write_history(self.application_id, drill)
        self.log.info("In the history:\n%s", history_table([drill]))

    def _check(self, commits: Mapping[TaskId, Sequence[Commit]]) -> dict[str, Any]:
        fault = self._fault()
        judged = judge_when_measured(lambda: self.hook.read(self.application_id), fault, self._limit_s, commits)
        found = judged.failover
        if found is not None:
            self.log.info("The drill's failover\n%s", found)
        if found is not None and found.without_input:
            self.log.warning("Not measured, because they had no input: %s", ", ".join(map(str, found.without_input)))
        return {
            "fault": dict(self.fault),
            "progress": {str(task): count for task, count in judged.progress.items()},
            "failover": None if found is None else found.to_plain(),
            "restores": to_plain(judged.restores),
        }

    @property
    def _limit_s(self) -> float | None:
        return parse_if_given(parse_seconds, "max_rto_s", self.max_rto_s)

    def _fault(self) -> InjectedFault:
        return from_plain(dict(self.fault), InjectedFault)
