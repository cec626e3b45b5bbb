"""What answers a drill's fault where no failover DAG does: the failover, the replacement, the standbys, the report."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from airflow_provider.cli.assign import place
from airflow_provider.cli.failover import close_incident, find_incidents, publish_answers
from airflow_provider.cli.instance import await_running, start_deployment
from airflow_provider.cli.terminal import await_condition
from airflow_provider.common.host_name import host_name
from airflow_provider.control.drills.judgement import answer_to
from airflow_provider.control.failover.incident_answer import IncidentFinder
from airflow_provider.control.placement.task_placement import TaskPlacement
from airflow_provider.control.records.deployment import Deployment, Placement
from airflow_provider.control.records.drill_fault import InjectedFault, Victim
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.conditions import InstanceInState, StandbysWarm, SupervisedRunning
from airflow_provider.errors import DeadlineError, InstanceError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_start import Started


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrillAnswer:
    """Answers one fault.

    Args:
        master: of Spark, for the replacement.
        store: of the job, by which its tasks are counted.
        say: gets what is done, in one line each.
    """

    cluster: KafkaConnection
    application_id: str
    fault: InjectedFault
    run_id: str
    master: str
    num_standby_replicas: int
    store: str
    timeouts: Timeouts
    say: Callable[[str], None]

    def give(self, timeout_s: float) -> None:
        """Fail over, replace the instance where its process ended, give every task its standbys, mark it resolved.

        Raises:
            InstanceError: the replacement cannot be started here, or ended while it started.
            DeadlineError: it took longer.
        """
        deadline = time.monotonic() + timeout_s
        self._fail_over(deadline)
        if self.fault.spec.ends_process:
            self._replace()
        elif self.fault.spec.victim is Victim.INSTANCE:
            self._await_return(deadline)
        wanted = TaskPlacement(num_standby_replicas=self.num_standby_replicas, reason="standbys after a drill")
        placed = place(self.cluster, self.application_id, wanted, self.store)
        self.say(f"standbys are assigned in generation {placed.assignment.generation}")
        warm = StandbysWarm(num_standby_replicas=self.num_standby_replicas, generation=placed.assignment.generation)
        left_s = max(0.0, deadline - time.monotonic())
        await_condition(self.cluster, self.application_id, warm, left_s)
        self._resolve()

    def _fail_over(self, deadline: float) -> None:
        while True:
            with ControlReader(self.cluster, self.application_id) as reader:
                found = find_incidents(reader, self.timeouts)
                if answer_to(self.fault, reader.view) is not None:
                    return
            events = tuple(event for event in found if event.incident.instance == self.fault.instance)
            finder = IncidentFinder(
                answered_by=self.run_id,
                timeouts=self.timeouts,
                num_standby_replicas=self.num_standby_replicas,
                by_hand=False,
                events=events,
            )
            if events:
                answers = publish_answers(self.cluster, self.application_id, finder)
                for line in (line for answer in answers for line in answer.decisions):
                    self.say(line)
                return
            if time.monotonic() > deadline:
                raise DeadlineError(
                    f"The end of {self.fault.instance!r} was not found, and no other answered it: look at its status."
                )

    def _await_return(self, deadline: float) -> None:
        back = InstanceInState(self.fault.instance, (InstanceState.RUNNING,))
        await_condition(self.cluster, self.application_id, back, max(0.0, deadline - time.monotonic()))

    def _replace(self) -> None:
        view = self._read()
        recorded = view.deployments.get(self.fault.instance)
        if recorded is not None and recorded.placement == Placement.SUPERVISED.value:
            self.say(f"waits for the supervisor of {self.fault.instance} to start it again")
            again = SupervisedRunning(self.fault.instance, self.fault.incarnation + 1)
            await_condition(self.cluster, self.application_id, again, self.timeouts.start_s, self.timeouts)
            return
        deployment = self._deployment(view)
        started = start_deployment(self.cluster, deployment, self.master, self.timeouts)
        if isinstance(started, Started):
            self.say(f"{deployment.instance} is started again; its log: {started.launched.log_file}")
            await_running(self.cluster, deployment, started, self.timeouts)

    def _deployment(self, view: ControlView) -> Deployment:
        deployment, status = view.deployments.get(self.fault.instance), view.statuses.get(self.fault.instance)
        host = status.process.host if status is not None else ""
        if deployment is None or (host and host != host_name()):
            why = "no deployment of it is on record" if deployment is None else f"it ran on {host}"
            raise InstanceError(
                f"{self.fault.instance!r} cannot be replaced here, because {why}: start it there with 'run', or let "
                "Airflow's repair DAG do it, and drill without --answer."
            )
        return deployment

    def _resolve(self) -> None:
        view = self._read()
        record = answer_to(self.fault, view)
        if record is not None and record.resolved_at_ms is None:
            close_incident(self.cluster, record, view)

    def _read(self) -> ControlView:
        with ControlReader(self.cluster, self.application_id) as reader:
            return reader.read_to_end()
