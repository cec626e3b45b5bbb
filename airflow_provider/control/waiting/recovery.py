"""What can be waited for of recoveries: a drill's fault, the answer to an incident, a drill that was passed."""

from __future__ import annotations

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.slo import drill_overdue, passed_drill
from airflow_provider.control.topics.liveness import Liveness
from airflow_provider.control.waiting.evaluation import (
    Condition,
    Evaluation,
    Needs,
    Observation,
    Outcome,
    end_of,
    instance_line,
    task_list,
)


class FaultTaken(Condition, frozen=True, kw_only=True):
    """Instances have done to themselves what a drill asked, or their processes are gone.

    Args:
        tasks: those whose stores have to report it; none where the instance does.
        ends_process: whether the process has to be gone, and cannot report that it was asked.
    """

    processes: dict[str, int]
    command: str
    tasks: tuple[TaskId, ...] = ()
    ends_process: bool = False

    def __str__(self) -> str:
        return f"{', '.join(sorted(self.processes))} to inject {self.command} into itself"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when an instance refuses."""
        found = [self._of(name, incarnation, seen) for name, incarnation in self.processes.items()]
        line = "; ".join(one.seen for one in found)
        for outcome in (Outcome.FAILED, Outcome.WAITING):
            if any(one.outcome is outcome for one in found):
                return Evaluation(outcome, line)
        return Evaluation(Outcome.MET, line)

    def _of(self, name: str, incarnation: int, seen: Observation) -> Evaluation:
        status = seen.view.statuses.get(name)
        if status is None or status.incarnation < incarnation:
            return Evaluation(Outcome.WAITING, f"{name} has sent no heartbeat yet")
        if status.incarnation > incarnation or seen.liveness(status) is not Liveness.ALIVE:
            return Evaluation(Outcome.MET, f"incarnation {incarnation} of {name} is gone")
        if (why := status.refusals.get(self.command)) is not None:
            return Evaluation(Outcome.FAILED, f"{name} refuses: {why}")
        if self.command in status.last_commands and not self.ends_process:
            copies = {task_id: status.task(task_id) for task_id in self.tasks}
            open_ = [task_id for task_id, copy in copies.items() if copy is None or copy.fault != self.command]
            if not open_:
                return Evaluation(Outcome.MET, f"{name} has begun it")
            return Evaluation(Outcome.WAITING, f"{name} has not done it to the store of {task_list(open_)}")
        return Evaluation(Outcome.WAITING, instance_line(status))


class FaultEnded(Condition, frozen=True):
    """An instance reports that a drill's fault, which lasts for a while, is over."""

    instance: str
    incarnation: int
    command: str

    def __str__(self) -> str:
        return f"{self.command} on {self.instance} to be over"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when the process ends before."""
        status = seen.view.statuses.get(self.instance)
        if status is None or status.incarnation < self.incarnation:
            return Evaluation(Outcome.WAITING, "it has sent no heartbeat yet")
        if status.incarnation > self.incarnation:
            return Evaluation(Outcome.FAILED, f"incarnation {self.incarnation} of {self.instance} is gone")
        fault = status.fault
        if fault is not None and fault.id == self.command and fault.over:
            return Evaluation(Outcome.MET, "it is over", {"fault": to_plain(fault)})
        if seen.liveness(status) is not Liveness.ALIVE:
            return Evaluation(Outcome.FAILED, end_of(status, seen))
        return Evaluation(Outcome.WAITING, f"it goes on, {instance_line(status)}")


class DrillPassedWithin(Condition, frozen=True, kw_only=True):
    """A drill was passed lately.

    Args:
        max_age_s: how long ago at the most, in seconds.
        cause: the kind of the drill; None for any.
    """

    max_age_s: float
    cause: str | None = None

    def __str__(self) -> str:
        which = "a drill" if self.cause is None else f"a drill of kind {self.cause}"
        return f"{which} to have been passed within the last {self.max_age_s:g} s"

    def needs(self) -> Needs:
        """The history."""
        return Needs(history=True)

    def evaluate(self, seen: Observation) -> Evaluation:
        """Waits for ever: one may be passed."""
        drills = [record for record in seen.history if self.cause in (None, record.cause)]
        overdue, passed = drill_overdue(drills, self.max_age_s, seen.now_ms), passed_drill(drills)
        if overdue is not None or passed is None:
            return Evaluation(Outcome.WAITING, overdue or "no drill was passed")
        result = {"id": passed.id, "cause": passed.cause, "passed_at_ms": passed.ended_at_ms or passed.at_ms}
        return Evaluation(Outcome.MET, f"{passed.id} was passed", result)


class IncidentResolved(Condition, frozen=True):
    """The failure of one process of an instance was answered, and redundancy is back.

    Args:
        generation: only what was found while this assignment was the newest, or a later one.
    """

    instance: str
    incarnation: int
    generation: int = 0

    def __str__(self) -> str:
        return f"the failure of {self.instance} (incarnation {self.incarnation}) to be answered and resolved"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Looks at the records of incidents alone."""
        # One that came back after a silence may have more than one.
        for record in sorted(seen.view.incidents.values(), key=lambda record: record.generation, reverse=True):
            incident = record.incident
            if (incident.instance, incident.incarnation) != (self.instance, self.incarnation):
                continue
            if incident.generation < self.generation:
                continue
            if record.resolved_at_ms is None:
                line = f"answered by {record.answered_by} with generation {record.generation}, not resolved yet"
                return Evaluation(Outcome.WAITING, line)
            answer = {
                "incident_id": incident.id,
                "generation": record.generation,
                "answered_by": record.answered_by,
                "answered_by_dag": record.answered_by_dag,
            }
            return Evaluation(Outcome.MET, "resolved", answer)
        status = seen.view.statuses.get(self.instance)
        return Evaluation(Outcome.WAITING, f"no record of it; {end_of(status, seen) if status else 'no heartbeat'}")
