"""Failovers of tasks that stand still slow down, and end: on a host that cannot keep up each move adds load."""

from __future__ import annotations

import dataclasses
import itertools

from airflow_provider.control.failover.decide import FailoverPlan, decide
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_answer import is_due
from airflow_provider.control.failover.pace import FailoverPace, pace_of
from airflow_provider.control.overview.application_state import ApplicationState
from airflow_provider.control.records.incident import Action, Decision, Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import InstanceStatus, TaskStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from tests.builders import APPLICATION, active, assigned, ended, instance, promoted, standby, task_id, view_of

MINUTE_MS = 60_000


def stalled(task: int = 0, on: str = "a", offset: int = 100) -> Incident:
    return Incident(
        application_id=APPLICATION,
        kind=IncidentKind.TASK_STALLED,
        instance=on,
        incarnation=1,
        tasks=(task_id(task),),
        evidence="task stands still",
        generation=1,
        active_since=1,
        committed=True,
        source_offset=offset,
    )


def moved(at_ms: int, task: int = 0, offset: int = 0) -> IncidentRecord:
    return answered(stalled(task, offset=offset), promoted(task, "b"), at_ms)


def answered(incident: Incident, decision: Decision, at_ms: int, generation: int = 2) -> IncidentRecord:
    return IncidentRecord(
        incident=incident,
        answered_by="run",
        detected_at_ms=None,
        decided_at_ms=at_ms,
        generation=generation,
        plan=(decision,),
    )


def test_first_failover_waits_for_nothing() -> None:
    assert pace_of(stalled(), [], 0) == FailoverPace()


def test_pause_doubles_with_each_failover_and_the_fifth_is_not_made() -> None:
    before: list[IncidentRecord] = []
    now_ms, pauses = 0, []
    for _ in range(4):
        before.append(moved(now_ms))
        now_ms += MINUTE_MS
        pace = pace_of(stalled(), before, now_ms)
        pauses.append((pace.pause_ms + MINUTE_MS) / MINUTE_MS)
        assert pace.puts_off is (len(before) < 4)
        now_ms += pace.pause_ms

    assert pauses == [2, 4, 8, 16]
    assert pace_of(stalled(), before, now_ms).exhausted
    assert not pace_of(stalled(), before, before[0].decided_at_ms + 31 * MINUTE_MS).exhausted


def test_tasks_that_stand_still_together_are_one_failover() -> None:
    before = [moved(1_000 * task, task) for task in range(5)]

    pace = pace_of(stalled(5), before, 6_000)

    assert (pace.failovers, pace.puts_off) == (0, False)
    assert pace_of(stalled(0), before, 6_000).puts_off  # it was moved a moment ago


def test_what_is_gone_is_answered_at_once_however_many_failovers_there_were() -> None:
    before = [moved(5 * minute * MINUTE_MS) for minute in range(4)]

    assert pace_of(ended("a", 0), before, 16 * MINUTE_MS) == FailoverPace()
    # What was held or was of another kind adds no load, and does not count.
    held = [dataclasses.replace(record, plan=()) for record in before]
    assert pace_of(stalled(), held, 16 * MINUTE_MS) == FailoverPace()


def test_figures_say_what_was_tried_and_what_to_do() -> None:
    before = [moved(5 * minute * MINUTE_MS, offset=40 + minute) for minute in range(4)]

    said = str(pace_of(stalled(offset=100), before, 18 * MINUTE_MS))

    assert said.startswith("the host cannot keep up: 4 failovers of tasks that stood still in 18 min")
    assert "got on by 60 records" in said
    assert "more cores or fewer tasks" in said


class OverloadedHost:
    """Two instances on which every task stands still some minutes after it was moved, having got on a little."""

    def __init__(self) -> None:
        self.assignment, self.now_ms, self.offset = assigned("a b", "a b", "b a"), 0, 0
        self.incidents: dict[str, IncidentRecord] = {}
        self.moved_at = dict.fromkeys(self.assignment.tasks, 0)
        self.moves: list[int] = []

    def view(self) -> ControlView:
        found = view_of(self.assignment, *(self._instance(name) for name in "ab"))
        found.incidents = self.incidents
        return found

    def pass_minutes(self, minutes: int) -> None:
        """The watcher looks four times a minute, and a run answers what is due."""
        for _ in range(4 * minutes):
            self.now_ms += MINUTE_MS // 4
            self.offset += 1
            for incident in detect(self.assignment, self.view().statuses, {}, Timeouts()):
                self._answer(incident)

    def _answer(self, incident: Incident) -> None:
        view = self.view()
        if not is_due(incident, view, ["a", "b"], now_ms=self.now_ms):
            return
        plan: FailoverPlan = decide(
            incident, self.assignment, view.statuses, ["a", "b"], answered=self.incidents, now_ms=self.now_ms
        )
        if plan.decisions:
            generation = (plan.assignment or self.assignment).generation
            self.incidents[incident.id] = answered(incident, plan.decisions[0], self.now_ms, generation)
        if plan.assignment is not None:
            self.assignment = plan.assignment
            self.moves.append(self.now_ms)
            self.moved_at |= dict.fromkeys(incident.tasks, self.now_ms)

    def _instance(self, name: str) -> InstanceStatus:
        copies: list[TaskStatus] = []
        for task, given in self.assignment.tasks.items():
            if given.active == name:
                for_s = (self.now_ms - self.moved_at[task]) / 1000
                copies.append(
                    active(
                        task,
                        generation=given.active_since,
                        stalled_s=for_s,
                        source_lag=50_000,
                        source_offset=self.moved_at[task] // MINUTE_MS,
                        first_commit_at_ms=self.moved_at[task],
                    )
                )
            else:
                copies.append(standby(task))
        return instance(name, *copies)


def test_storm_on_a_host_that_cannot_keep_up_ends_itself_and_says_so() -> None:
    host = OverloadedHost()

    host.pass_minutes(25)

    rounds = [at for at, before in zip(host.moves, [-MINUTE_MS, *host.moves], strict=False) if at - before > 30_000]
    assert len(rounds) == 4
    pauses = [later - at for at, later in itertools.pairwise(rounds)]
    assert pauses == sorted(pauses)
    held = [one for record in host.incidents.values() for one in record.plan if one.action is Action.HOLD]
    assert held
    assert all(one.overloaded and "the host cannot keep up: 4 failovers" in one.evidence for one in held)
    problems = [line for line in ApplicationState(host.view()).problems if "the host cannot keep up" in line]
    assert len(problems) >= 1
    assert "run the failover by hand" in problems[0]


def test_held_task_is_moved_again_once_the_failovers_before_are_long_past() -> None:
    host = OverloadedHost()
    host.pass_minutes(25)
    before = len(host.moves)

    host.pass_minutes(20)

    assert before < len(host.moves) <= before + 9
