from __future__ import annotations

import dataclasses

from airflow_provider.control.drills.readiness import fault_over, fault_taken, redundancy_back
from airflow_provider.control.records.drill_fault import DrillKind
from airflow_provider.control.waiting.evaluation import Outcome
from airflow_provider.control.waiting.recovery import FaultEnded, FaultTaken, IncidentResolved
from airflow_provider.control.waiting.standby import StandbysWarm
from airflow_provider.control.waiting.task import TasksReplayed
from tests.builders import seen
from tests.unit.control.drills.test_judgement import FAULT, TASK, after


def test_process_has_to_be_gone_only_where_the_kind_ends_it() -> None:
    hang = dataclasses.replace(FAULT, kind=DrillKind.HANG)

    assert fault_taken(FAULT) == FaultTaken(processes={"a": 3}, command="f1", ends_process=True)
    assert fault_taken(hang) == FaultTaken(processes={"a": 3}, command="f1")


def test_failure_is_over_once_what_was_found_since_the_fault_is_resolved() -> None:
    view = after()
    observation = dataclasses.replace(seen(view.assignment, *view.statuses.values()), view=view)

    assert fault_over(FAULT) == IncidentResolved("a", 3, 1)
    assert fault_over(FAULT).evaluate(observation).outcome is Outcome.MET
    # A process that lives on may have had an incident before, and that is resolved.
    later = dataclasses.replace(FAULT, generation=2)
    assert fault_over(later).evaluate(observation).outcome is Outcome.WAITING


def test_redundancy_is_that_of_an_assignment_after_the_fault() -> None:
    assert redundancy_back(FAULT, 2) == StandbysWarm(num_standby_replicas=2, generation=2)


def test_stores_of_all_copies_have_to_report_their_loss() -> None:
    lost = dataclasses.replace(FAULT, kind=DrillKind.ACTIVE_AND_STANDBY_LOST, copies={"b": 1})

    assert fault_taken(lost) == FaultTaken(processes={"a": 3, "b": 1}, command="f1", tasks=(TASK,))


def test_loss_that_needs_no_answer_is_over_once_the_copy_is_whole_in_any_assignment() -> None:
    lost = dataclasses.replace(FAULT, kind=DrillKind.STANDBY_LOST)

    assert fault_over(lost) == TasksReplayed("a", "f1", (TASK,))
    assert redundancy_back(lost, 1) == StandbysWarm(num_standby_replicas=1, generation=1)


def test_fault_that_lasts_is_over_once_the_instance_reports_it() -> None:
    shadow = dataclasses.replace(FAULT, kind=DrillKind.SHADOW_RESTORE)

    assert fault_taken(shadow) == FaultTaken(processes={"a": 3}, command="f1")
    assert fault_over(shadow) == FaultEnded("a", 3, "f1")


def test_standbys_that_were_certified_have_to_be_again() -> None:
    certified = dataclasses.replace(FAULT, certified=True)

    assert redundancy_back(certified, 1) == StandbysWarm(num_standby_replicas=1, generation=2, certified=True)
