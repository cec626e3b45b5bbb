"""``drill``: injects a fault, waits for the failover, and checks what came out, as the drill DAG does."""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime

from airflow_provider.cli.assign import place
from airflow_provider.cli.failover import close_incident, find_incidents, publish_answers
from airflow_provider.cli.instance import await_running, start_deployment
from airflow_provider.cli.options import (
    add_application_options,
    add_seconds,
    add_start_timeout,
    check_instance,
    cluster_of,
    command_id,
)
from airflow_provider.cli.terminal import ExitStatus, await_condition, note, say, say_waiting
from airflow_provider.common.clock import now_ms
from airflow_provider.common.host_name import host_name
from airflow_provider.common.interruption import interruptible
from airflow_provider.common.table import seconds
from airflow_provider.control.drills.blackout import Blackout, blackout_at, parse_blackouts
from airflow_provider.control.drills.judgement import answer_to
from airflow_provider.control.drills.readiness import fault_over, fault_taken, readiness_problems, redundancy_back
from airflow_provider.control.drills.rehearsal import Rehearsal
from airflow_provider.control.failover.incident_answer import IncidentFinder
from airflow_provider.control.history.builder import drill_record, skipped_drill_record
from airflow_provider.control.placement.task_placement import TaskPlacement
from airflow_provider.control.records.deployment import Placement
from airflow_provider.control.records.drill_fault import DRILLS, DrillKind, InjectedFault, Victim
from airflow_provider.control.records.history import HistoryOutcome, HistoryRecord, OutputCount, RtoParts, history_plain
from airflow_provider.control.records.incident import SILENT_AFTER_S
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.waiting.condition_wait import wait_for
from airflow_provider.control.waiting.evaluation import Condition, Outcome, WaitResult
from airflow_provider.control.waiting.instance import InstanceInState, SupervisedRunning
from airflow_provider.control.waiting.standby import StandbysWarm
from airflow_provider.error_text import error_text
from airflow_provider.errors import (
    AssignmentError,
    ConfigurationError,
    DeadlineError,
    InstanceError,
    StateError,
    StatefulStreamsError,
)
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_start import Started

_FAULT_S = 60.0
_VERDICTS = (StateError, InstanceError, DeadlineError, AssignmentError, ConfigurationError)
"""What says that a drill is not passed; other errors say nothing of the application."""


def add_drill(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``drill``."""
    drill = commands.add_parser(
        "drill",
        help="inject a fault and check the recovery; exits with 3 where it failed, 4 where it was skipped",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Something has to answer the failure: the failover and repair DAGs, or with --answer this command, "
        "which then\nstarts the instance again on this host as it was deployed.\n\nkinds:\n"
        + "\n".join(f"  {kind.value:<24}{spec.does}" for kind, spec in DRILLS.items()),
    )
    add_application_options(drill)
    drill.add_argument("--instance", metavar="INSTANCE", help="which fails (the one with the most active tasks)")
    drill.add_argument(
        "--kind", choices=[kind.value for kind in DrillKind], default=DrillKind.CRASH.value,
        help="what happens to it (%(default)s)",
    )  # fmt: skip
    drill.add_argument("--standbys", type=int, default=1, metavar="N", help="each task must have (%(default)d)")
    drill.add_argument("--max-rto", type=float, metavar="SECONDS", help="what is promised")
    drill.add_argument("--answer", action="store_true", help="answer the failure, too")
    drill.add_argument("--master", default="local[*]", metavar="URL", help="of Spark, for --answer (%(default)s)")
    drill.add_argument("--store", default="state", metavar="NAME", help="of a job that was not described (%(default)s)")
    drill.add_argument(
        "--shared-sink", action="store_true",
        help="other programs write into the job's sink or dead-letter topic, too: outputs are not counted",
    )  # fmt: skip
    drill.add_argument(
        "--blackout",
        type=_blackouts,
        action="extend",
        default=[],
        metavar="TIMES",
        help="when none begins, such as 'mon-fri 08:00-18:00 Europe/Vienna'",
    )
    add_seconds(drill, "--ready-timeout", 60.0, "for a whole application")
    add_seconds(drill, "--recovery-timeout", 1800.0, "for the recovery")
    add_start_timeout(drill)
    drill.add_argument("--json", action="store_true", help="for programs")
    drill.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    return _Drill(asked).run()


def _blackouts(text: str) -> tuple[Blackout, ...]:
    try:
        return parse_blackouts(text)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class _Drill:
    """One drill, step by step."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self._asked = asked
        self._application_id: str = asked.application_id
        self._cluster: KafkaConnection = cluster_of(asked)
        self._kind = DrillKind(asked.kind)
        self._timeouts = Timeouts(start_s=asked.start_timeout)
        self._run_id = command_id()
        self._fault_id = f"{self._run_id}/drill"
        self._rehearsal = Rehearsal(
            cluster=self._cluster,
            application_id=self._application_id,
            run_id=self._run_id,
            store=asked.store,
            max_rto_s=asked.max_rto,
        )

    def run(self) -> int:
        # 1. be ready
        view = self._rehearsal.read()
        check_instance(view, self._asked.instance)
        self._rehearsal.check_store(view)
        if (why := blackout_at(self._asked.blackout, datetime.fromtimestamp(now_ms() / 1000, UTC))) is not None:
            return self._skipped(why)
        if why := self._not_ready():
            return self._skipped(why)
        with interruptible(signal.SIGINT, signal.SIGTERM):
            # 2. inject the fault
            try:
                fault = self._rehearsal.inject(
                    self._fault_id,
                    self._kind,
                    self._asked.instance,
                    self._timeouts,
                    self._asked.standbys,
                    shared_sink=self._asked.shared_sink,
                )
            except (InstanceError, AssignmentError) as refusal:
                return self._skipped(str(refusal))
            try:
                record = self._rehearse(fault)
            except BaseException as end:
                self._break_off(fault, end)
                raise
        if record is None:
            return ExitStatus.SKIPPED
        print(json.dumps(history_plain(record), indent=2) if self._asked.json else drill_text(record))
        return exit_status_of(record)

    def _rehearse(self, fault: InjectedFault) -> HistoryRecord | None:
        """What the history keeps of it; None where the instance refused the fault."""
        try:
            self._wait(fault_taken(fault), _FAULT_S)
        except (InstanceError, AssignmentError) as refusal:
            self._skipped(str(refusal))
            return None
        say(f"{fault.kind.value} on {', '.join(fault.processes)}: task {', '.join(map(str, fault.tasks)) or 'none'}")
        # 3. wait for the failover, 4. check the recovery
        error: StatefulStreamsError | None = None
        try:
            self._recover(fault)
        except _VERDICTS as verdict:
            error = verdict
        done = self._rehearsal.conclude(fault, error)
        if done.error is not None and not isinstance(done.error, _VERDICTS):
            raise done.error
        self._restore_redundancy()
        return done.record

    def _break_off(self, fault: InjectedFault, end: BaseException) -> None:
        """A drill that is not judged does not stay open, and leaves no task without its standbys, where it can."""
        why = "a signal ended it" if isinstance(end, KeyboardInterrupt) else f"{type(end).__name__}: {error_text(end)}"
        record = drill_record(
            self._application_id,
            fault,
            self._run_id,
            outcome=HistoryOutcome.FAILED,
            reason=f"It was not judged: {why}",
            ended_at_ms=now_ms(),
            slo_rto_s=self._asked.max_rto,
        )
        noted = note(self._cluster, self._application_id, record)
        say("the drill is broken off; 'status' says what is open, and 'failover' and 'assign' answer it")
        self._restore_redundancy()
        if not noted:  # by now the brokers may answer again
            note(self._cluster, self._application_id, record)

    def _not_ready(self) -> str | None:
        warm = StandbysWarm(num_standby_replicas=self._asked.standbys)
        result = wait_for(
            self._cluster, self._application_id, warm, timeout_s=self._asked.ready_timeout, say=say_waiting
        )
        if (why := not_whole(result, self._asked.ready_timeout)) is not None:
            return why
        with ControlReader(self._cluster, self._application_id) as reader:
            view, heard = reader.read_to_end(), None
            if not self._asked.answer and DRILLS[self._kind].cause is not None:
                heard = reader.listen_for_watcher(SILENT_AFTER_S)
        found = readiness_problems(view, self._kind, self._asked.instance, self._timeouts, heard=heard)
        if heard is False:
            found = (*found, "with --answer, this command answers the failure")
        return "; ".join(found) or None

    def _recover(self, fault: InjectedFault) -> None:
        if fault.spec.cause is None:
            say("nothing has to be answered")
        elif self._asked.answer:
            self._answer(fault, time.monotonic() + self._asked.recovery_timeout)
        else:
            say("the failover and repair DAGs have to answer that; --answer lets this command do it")
        self._wait(fault_over(fault), self._asked.recovery_timeout)
        self._wait(redundancy_back(fault, self._asked.standbys), self._asked.recovery_timeout)

    def _answer(self, fault: InjectedFault, deadline: float) -> None:
        """What the failover and repair DAGs do: fail over, replace the instance, give standbys, mark it resolved."""
        standbys = self._asked.standbys
        self._fail_over(fault, deadline)
        if fault.spec.ends_process:
            self._replace(fault)
        elif fault.spec.victim is Victim.INSTANCE:
            back = InstanceInState(fault.instance, (InstanceState.RUNNING,))
            self._wait(back, max(0.0, deadline - time.monotonic()))
        wanted = TaskPlacement(num_standby_replicas=standbys, reason="standbys after a drill")
        placed = place(self._cluster, self._application_id, wanted, self._asked.store)
        say(f"standbys are assigned in generation {placed.assignment.generation}")
        warm = StandbysWarm(num_standby_replicas=standbys, generation=placed.assignment.generation)
        self._wait(warm, max(0.0, deadline - time.monotonic()))
        view = self._rehearsal.read()
        record = answer_to(fault, view)
        if record is not None and record.resolved_at_ms is None:
            close_incident(self._cluster, record, view)

    def _fail_over(self, fault: InjectedFault, deadline: float) -> None:
        while True:
            with ControlReader(self._cluster, self._application_id) as reader:
                found = find_incidents(reader, self._timeouts)
                if answer_to(fault, reader.view) is not None:
                    return
            events = tuple(event for event in found if event.incident.instance == fault.instance)
            if events:
                finder = IncidentFinder(
                    answered_by=self._run_id,
                    timeouts=self._timeouts,
                    num_standby_replicas=self._asked.standbys,
                    by_hand=False,
                    events=events,
                )
                for answer in publish_answers(self._cluster, self._application_id, finder):
                    for line in answer.decisions:
                        say(line)
                return
            if time.monotonic() > deadline:
                raise DeadlineError(
                    f"The end of {fault.instance!r} was not found, and no other answered it: look at its status."
                )

    def _replace(self, fault: InjectedFault) -> None:
        view, instance = self._rehearsal.read(), fault.instance
        deployment, status = view.deployments.get(instance), view.statuses.get(instance)
        if deployment is not None and deployment.placement == Placement.SUPERVISED.value:
            say(f"waits for the supervisor of {instance} to start it again")
            again = SupervisedRunning(instance, fault.incarnation + 1)
            await_condition(self._cluster, self._application_id, again, self._timeouts.start_s, self._timeouts)
            return
        host = status.process.host if status is not None else ""
        if deployment is None or (host and host != host_name()):
            why = "no deployment of it is on record" if deployment is None else f"it ran on {host}"
            raise InstanceError(
                f"{instance!r} cannot be replaced here, because {why}: start it there with 'run', or let Airflow's "
                "repair DAG do it, and drill without --answer."
            )
        started = start_deployment(self._cluster, deployment, self._asked.master, self._timeouts)
        if isinstance(started, Started):
            say(f"{instance} is started again; its log: {started.launched.log_file}")
            await_running(self._cluster, deployment, started, self._timeouts)

    def _restore_redundancy(self) -> None:
        """Whatever became of the drill, every task is given its standbys again."""
        wanted = TaskPlacement(num_standby_replicas=self._asked.standbys, reason="standbys again after a drill")
        try:
            place(self._cluster, self._application_id, wanted, self._asked.store)
        except StatefulStreamsError as why:
            say(f"the standbys could not be assigned again: {why}")

    def _wait(self, condition: Condition, timeout_s: float) -> None:
        await_condition(self._cluster, self._application_id, condition, timeout_s)

    def _skipped(self, why: str) -> int:
        # Under the fault's id: where the instance has refused it, the record that was open is ended.
        record = skipped_drill_record(
            self._application_id, self._fault_id, self._run_id, self._kind, reason=why, at_ms=now_ms()
        )
        note(self._cluster, self._application_id, record)
        print(json.dumps(history_plain(record), indent=2) if self._asked.json else f"skipped: {record.reason}")
        return ExitStatus.SKIPPED


def not_whole(result: WaitResult, limit_s: float) -> str | None:
    """Why an application is not ready for a drill, in one line; None where it is whole."""
    match result.outcome:
        case Outcome.MET:
            return None
        case Outcome.FAILED:
            return f"it is not whole, and does not become so by itself: {result.seen}"
        case Outcome.WAITING:
            return f"it is not whole after {limit_s:g} s (--ready-timeout): {result.seen}"


def exit_status_of(record: HistoryRecord) -> ExitStatus:
    """What a script is told of a drill."""
    match record.outcome:
        case HistoryOutcome.PASSED:
            return ExitStatus.FINE
        case HistoryOutcome.SKIPPED:
            return ExitStatus.SKIPPED
    return ExitStatus.NO


def drill_text(record: HistoryRecord) -> str:
    """The RTO by its parts, and the verdict."""
    rto = record.rto
    lines = [f"drill ({record.cause}) of {', '.join(record.instances)}: {record.outcome.value}"]
    lines += [f"  {name:<34}{seconds(of(rto)):>10}" for name, of in _PARTS.items()]
    lines.append(f"  {'records replayed':<34}{record.restored_records:>10,}")
    if record.outputs is not None:
        lines += [_count_text(count) for count in record.outputs.counts]
        if record.outputs.unmeasured is not None:
            lines.append(f"  outputs were not counted: {' '.join(record.outputs.unmeasured.split())}")
    if record.slo_rto_s is not None:
        lines.append(f"  {'promised':<34}{record.slo_rto_s:>8.2f} s")
    if record.reason is not None:
        lines.append(f"  {' '.join(record.reason.split())}")
    return "\n".join(lines)


_PARTS: dict[str, Callable[[RtoParts], int | None]] = {
    "failure to detection": lambda rto: rto.detected_ms,
    "detection to decision": lambda rto: rto.decided_ms,
    "decision to the last task owned": lambda rto: rto.owned_ms,
    "owned to the first output": lambda rto: rto.first_output_ms,
    "RTO": lambda rto: rto.total_ms,
}


def _count_text(count: OutputCount) -> str:
    name = f"in {count.topic}, of {count.committed:,} committed"
    return f"  {name:<34}{count.found:>10,}"
