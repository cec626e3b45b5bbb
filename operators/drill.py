"""A drill: has an instance fail, and checks what the failover came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context, XComArg

from airflow_provider.bases.arguments import parse_flag, parse_if_given, parse_seconds, parse_whole
from airflow_provider.common.json_codec import from_plain, to_plain
from airflow_provider.control.drills.readiness import fault_taken, redundancy_back
from airflow_provider.control.history.builder import drill_record
from airflow_provider.control.history.report import history_table
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.records.drill_fault import DrillKind, InjectedFault, parse_drill_kind
from airflow_provider.control.records.history import HistoryOutcome
from airflow_provider.errors import InstanceError, StatefulStreamsError
from airflow_provider.links import FailoverRun, FailoverRunLink, InstanceLogLink
from airflow_provider.operators.control import ControlOperator

if TYPE_CHECKING:
    from airflow_provider.control.drills.rehearsal import Conclusion, Rehearsal


class InjectFaultOperator(ControlOperator):
    """Has an instance do to itself what the kind of the drill says (`control.records.drill_fault`). Waits until it has.

    A run injects one fault, however often this is tried or cleared: the choice is noted in the assignment topic, in the
    same fenced transaction as the command, under an id made of DAG, run and task. A later try finds the note and waits
    for its result. Start another run for another fault.

    An instance injects it only where its job says ``options(allow_faults=True)``. The drill is noted in the history; an
    application whose history cannot be read gets no fault.

    Args:
        kind: of the drill. ``"crash"`` kills the whole process group with SIGKILL, as a crash or a lost host would.
        instance: the instance's name; None takes the one with the most active tasks.
        max_rto_s: what is promised, in seconds: a failover that would take longer, by those on record, is not
            rehearsed. None promises nothing.
        store: of a job that was not described, in whose changelog the commits count what it writes.
        shared_sink: whether other programs write into the job's sink or dead-letter topic, too; then outputs are not
            counted.
        num_standby_replicas: how many warm standbys each task must have at that moment; None for all that it is
            assigned.
        timeout_s: how long it may take until the instance is gone, or reports that it has begun, in seconds.

    Returns:
        An `InjectedFault` as plain values.

    Raises:
        AssignmentError: nothing is assigned yet.
        InstanceError: no instance lives, the named one does not, or it refuses; or another drill's fault is not over,
            an incident is open, or a task lacks a warm standby.
        ConfigurationError: the application has no such store. Nothing was done.
        DeadlineError: it did not do it in time.
        TopicMissingError: the application has no control topics, or no history.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields,
        "kind",
        "instance",
        "max_rto_s",
        "store",
        "shared_sink",
        "num_standby_replicas",
    )
    operator_extra_links = (InstanceLogLink(),)

    def __init__(
        self,
        *,
        application_id: str,
        kind: str = DrillKind.CRASH.value,
        instance: str | None = None,
        max_rto_s: float | str | None = None,
        store: str = "state",
        shared_sink: bool | str = False,
        num_standby_replicas: int | None = None,
        timeout_s: float | str | None = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        self.kind = kind
        self.instance = instance
        self.max_rto_s = max_rto_s
        self.store = store
        self.shared_sink = shared_sink
        self.num_standby_replicas = num_standby_replicas

    def execute(self, context: Context) -> Any:
        fault_id = self.task_of_run(context)
        known = fault_id in self.hook.read(self.application_id).faults
        fault = _rehearsal(self, context, self.store, self.max_rto_s).inject(
            fault_id,
            parse_drill_kind(self.kind),
            self.instance or None,
            self.timeouts,
            parse_if_given(parse_whole, "num_standby_replicas", self.num_standby_replicas),
            shared_sink=parse_flag("shared_sink", self.shared_sink),
        )
        what = "An earlier try asked %s (incarnation %d)" if known else "Asked %s (incarnation %d)"
        self.log.info(f"{what} for a drill that %s", fault.instance, fault.incarnation, fault.spec.does)
        if fault.predicted_rto_ms is not None:
            self.log.info("Predicted RTO: %.1f s", fault.predicted_rto_ms / 1000)
        if fault.outputs is not None and fault.outputs.unmeasured is not None:
            self.log.warning("Outputs will not be counted: %s", fault.outputs.unmeasured)
        return self.wait_for(fault_taken(fault))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        fault_id, by = self.task_of_run(context), str(context["run_id"])
        view = self.hook.read(self.application_id)
        fault = view.faults.get(fault_id)
        hit = None if fault is None else view.statuses.get(fault.instance)
        if fault is not None and hit is not None and hit.incarnation == fault.incarnation:
            self.linked_instance = InstanceHandle.of(hit)
        try:
            super().execute_complete(context, event)
        except StatefulStreamsError as error:
            if fault is not None:
                failed = HistoryOutcome.FAILED
                self.note_history([drill_record(self.application_id, fault, by, outcome=failed, reason=str(error))])
            raise
        if fault is None:
            raise InstanceError(
                f"The note of fault {fault_id!r} is not in the assignment topic of {self.application_id!r} any "
                "more: the topic was emptied or created again since. Start another run."
            )
        self.hook.write_history(self.application_id, drill_record(self.application_id, fault, by))
        plain: dict[str, Any] = to_plain(fault)
        return plain


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
        standbys = parse_whole("num_standby_replicas", self.num_standby_replicas)
        return self.wait_for(redundancy_back(self._fault(), standbys))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Compare the offsets, report, and note in the history how the drill ended."""
        fault, error = self._fault(), None
        try:
            super().execute_complete(context, event)
        except StatefulStreamsError as found:
            error = found
        done = _rehearsal(self, context, self.store, self.max_rto_s).conclude(fault, error)
        self._say(done)
        if done.judged.failover is not None:
            self.show_outcome(context, f"{done.record.outcome.value}: {done.judged.failover.line()}")
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


def _rehearsal(task: ControlOperator, context: Context, store: str, max_rto_s: float | str | None) -> Rehearsal:
    from airflow_provider.control.drills.rehearsal import Rehearsal

    return Rehearsal(
        cluster=task.hook.connection,
        application_id=task.application_id,
        run_id=str(context["run_id"]),
        store=store,
        max_rto_s=parse_if_given(parse_seconds, "max_rto_s", max_rto_s),
    )
