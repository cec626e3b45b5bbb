from __future__ import annotations

import dataclasses
import json
import re

import pytest

from airflow_provider.cli.application_text import state_text
from airflow_provider.common.task_id import TaskId
from airflow_provider.common.timer_count import TimerCount
from airflow_provider.control.outlook.losses import Losses
from airflow_provider.control.overview.application_state import ApplicationState, held_time
from airflow_provider.control.records.assignment import TaskAssignment
from airflow_provider.control.records.history import RtoParts
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord, Unanswered, Watcher
from airflow_provider.control.records.status import (
    InstanceState,
    InstanceStatus,
    RestorePhase,
    SourceStatus,
    TableWaitStatus,
    TaskState,
    TimeStatus,
)
from airflow_provider.control.topics.view import ControlView
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from tests.builders import APPLICATION, active, assigned, instance, promoted, standby, view_of
from tests.unit.control.outlook.test_rto_basis import failover


def whole() -> ControlView:
    statuses = {
        "a": instance(
            "a",
            active(
                0,
                processed_records=12_345,
                filtered_records={"small": 20, "duplicates": 1_001},
                failed_records=3,
                late_records=1_042,
                lost_records=1_500,
                records_per_s=678.9,
                stalled_s=0.0,
                source_lag=1_234,
            ),
            standby(1),
            host="h1",
            pid=7,
        ),
        "b": instance("b", active(1), standby(0)),
    }
    heard = dict.fromkeys(statuses, 1_000)
    return ControlView(
        APPLICATION, assignment=assigned("a b", "b a"), statuses=statuses, heard_at_ms=heard, newest_ms=1_000
    )


def test_what_cannot_be_read_and_a_standby_that_is_far_behind_are_not_safe() -> None:
    view = whole()
    view.unreadable[b"assignment"] = "Format 2 is newer"
    assert "the record under 'assignment' cannot be read here: Format 2 is newer" in ApplicationState(view).problems

    far = view_of(assigned("a b"), instance("a", active(0)), instance("b", standby(0, 10_000_000, 7_200.0)))
    assert "task 0_0: the standby on b is far behind: 10,000,000 changelog records behind, 7200 s" in (
        ApplicationState(far).problems
    )


def test_prediction_goes_by_the_same_silence_as_the_rest() -> None:
    view = whole()
    view.newest_ms = 9_000  # both were heard eight seconds ago, and nobody calls them silent

    predicted = ApplicationState(view, watched=True).predicted
    assert len(predicted) == 2
    assert all(one.total_ms is not None and one.total_ms < 60_000 for one in predicted.values())


def test_nothing_is_predicted_of_a_failure_that_nobody_would_answer() -> None:
    assert ApplicationState(whole()).predicted == {}


def test_timers_of_active_tasks_are_shown_where_there_are_any() -> None:
    view = whole()
    assert "timers of" not in state_text(ApplicationState(view))
    (first, second), *_ = [status.tasks for status in view.statuses.values()]
    timers = {"timers": TimerCount(7, 0)}
    tasks = (dataclasses.replace(first, timers=timers), dataclasses.replace(second, timers=timers))
    view.statuses["a"] = dataclasses.replace(view.statuses["a"], tasks=tasks)

    shown = state_text(ApplicationState(view)).splitlines()
    at = shown.index("task  timers of   set  next (UTC)")
    assert shown[at + 1 : at + 3] == ["0_0   event time  7    1970-01-01 00:00:00", ""]


def test_stores_that_are_not_in_rocksdb_are_shown_where_there_are_any() -> None:
    view = whole()
    assert "store in" not in state_text(ApplicationState(view))
    tasks = [dataclasses.replace(t, store_kind="memory", memory_bytes=1_500) for t in view.statuses["a"].tasks]
    view.statuses["a"] = dataclasses.replace(view.statuses["a"], tasks=tuple(tasks))

    shown = state_text(ApplicationState(view)).splitlines()
    at = shown.index("task  store in  copies  most bytes  bytes")
    assert shown[at + 1] == "0_*   memory    2       1,500       3,000"


def test_application_that_is_whole_has_no_problem_and_a_line_for_each_copy() -> None:
    text = state_text(ApplicationState(whole(), watched=True))

    lines = [line.split() for line in text.splitlines()]
    assert ["a", "running", "1", "0", "h1", "7"] in lines
    assert [
        "0_0",
        "a",
        "active",
        "running",
        "-",
        "-",
        "-",
        "1,234",
        "12,345",
        "1,021",
        "3",
        "1,042",
        "1,500",
        "679",
        "~9.5",
        "s",
        "-",
    ] in lines
    assert ["0_0", "b", "standby", "warm", "0", "0.0", "no", "commit", *["-"] * 9] in lines
    assert text.startswith("app, generation 1, watched by none\n")
    assert "open incidents" not in text
    assert text.endswith("no problems")


def test_whatever_keeps_a_task_from_its_work_is_a_problem_with_its_cause() -> None:
    view = whole()
    view.assignment = assigned("a b", "b a", "- c", "d")
    view.statuses["a"] = instance(
        "a",
        active(0, state=TaskState.FAILED, error="[UNRESOLVED_COLUMN]\n did you mean customer?"),
        standby(1, restore_phase=RestorePhase.CHANGELOG),
    )
    view.statuses["b"] = instance("b", active(1, error="its query ended"), standby(0, error="disk full"))
    view.statuses["d"] = instance("d", state=InstanceState.ENDED, error="killed")

    assert ApplicationState(view, {"b"}).problems == (
        "instance b: silent (running)",
        "instance c: no heartbeat on record",
        "instance d: ended: killed",
        "task 0_0: failed on a: [UNRESOLVED_COLUMN] did you mean customer?",
        "task 0_0: no warm standby on b: disk full",
        "task 0_1: running on b: its query ended",
        "task 0_1: no warm standby on a",
        "task 0_2: no instance is active",
        "task 0_2: no warm standby on c",
        "task 0_3: unknown on d",
        "task 0_3: no standby is assigned (b, c, d not running: an upgrade or a start may be under way; if none is, "
        "run the deploy DAG)",
    )


def test_standby_that_has_failed_for_good_is_told_from_one_that_is_not_warm_yet() -> None:
    view = whole()
    failed = dataclasses.replace(
        standby(0, error="no such store", error_kind="ConfigurationError"), state=TaskState.FAILED
    )
    view.assignment, view.statuses = assigned("a b"), {}
    view.statuses["a"], view.statuses["b"] = instance("a", active(0)), instance("b", failed)

    assert ApplicationState(view).problems == (
        "task 0_0: the standby on b has failed, and is tried again once that instance is deployed again: no such store",
    )


def test_task_that_stands_still_while_its_source_has_records_is_a_problem() -> None:
    view = whole()
    view.statuses["a"] = instance("a", active(0, stalled_s=130.0, source_lag=5_000), standby(1))

    assert ApplicationState(view).problems == (
        "task 0_0: stands still on a for 130 s, while 5,000 records of its source wait",
    )


def test_incident_is_shown_until_it_is_resolved() -> None:
    view = whole()
    gone = Incident(
        application_id=APPLICATION,
        kind=IncidentKind.INSTANCE_ENDED,
        instance="c",
        incarnation=4,
        tasks=(TaskId(0, 0),),
        evidence="killed by signal 9",
        generation=1,
    )
    record = IncidentRecord(
        incident=gone,
        answered_by="run-1",
        detected_at_ms=None,
        decided_at_ms=5,
        generation=2,
        plan=(promoted(0, "a", "a: lag 0"),),
    )
    view.incidents[gone.id] = record
    line = "c/4/gone-1: killed by signal 9; answered by run-1 at 1970-01-01T00:00:00+00:00 with generation 2: "
    line += "task 0_0: promote on a (a: lag 0)"

    assert ApplicationState(view).open_incidents == (line,)
    assert f"open incidents: {line} no other problems" in " ".join(state_text(ApplicationState(view)).split())
    assert ApplicationState(view).to_json()["open_incidents"] == [line]

    view.assignment = assigned("a", "b a")
    lacking = "task 0_0: no standby is assigned (a, b run, and a failover's repair is not over: where no run of it is "
    assert ApplicationState(view).problems == (lacking + "under way, run the deploy DAG)",)

    view.incidents[gone.id] = dataclasses.replace(record, resolved_at_ms=9)
    assert ApplicationState(view).open_incidents == ()
    assert ApplicationState(view).problems == (
        "task 0_0: no standby is assigned (a, b run: run the deploy DAG, or assign)",
    )


def test_load_that_a_repair_has_still_to_even_out_is_said_although_nothing_is_wrong() -> None:
    """The incident is resolved, every copy is warm, and the repaired instance has none of its tasks back."""
    own = [active(number) for number in range(4)]
    view = view_of(assigned(*["b a"] * 4), instance("a", *map(standby, range(4))), instance("b", *own))

    state = ApplicationState(view)

    assert state.problems == ()
    assert str(state.uneven_load).startswith("b is active for 4 tasks, a for 0; the last step of a deployment, an upgr")
    assert "uneven load:\n  b is active for 4 tasks" in state_text(state)
    assert state.to_json()["uneven_load"] == state.uneven_load
    view.assignment = assigned("b a", "a b", "b a", "a b")
    assert "uneven load" not in state_text(state)


@pytest.mark.parametrize("away", ["silent", "ended"])
def test_load_is_shared_by_those_that_run(away: str) -> None:
    other = instance("a", state=InstanceState.ENDED) if away == "ended" else instance("a")
    view = view_of(assigned("b", "b"), other, instance("b", active(0), active(1)))

    assert ApplicationState(view, {"a"} if away == "silent" else ()).uneven_load is None


def test_standby_that_restores_says_how_far_it_is() -> None:
    view = whole()
    copy = standby(0, lag_records=600, restore_phase=RestorePhase.CHANGELOG, restored_records=400)
    view.statuses["b"] = instance("b", active(1), copy)

    assert ApplicationState(view).problems == (
        "task 0_0: no warm standby on b: changelog: 400 of 1,000 records (40 %)",
    )


def test_failure_that_no_failover_answers_is_a_problem_while_the_application_is_watched() -> None:
    view = whole()
    reported = Unanswered(incident="b/1/gone-1", what="heartbeat_missed of b", reported_at_ms=1_000)
    view.watcher = Watcher(
        application_id=APPLICATION, host="h9", pid=5, began_at_ms=1, sent_at_ms=61_000, unanswered=(reported,)
    )

    (line,) = ApplicationState(view, watched=True).problems

    assert line.startswith("heartbeat_missed of b was reported 60 s ago, and no failover has taken it up yet: where no")
    assert ApplicationState(view).problems == (), "what a watcher said that is gone may be long over"


def test_long_error_is_whole_below_the_tables_and_in_the_json() -> None:
    view, path = whole(), "/srv/" + "state/" * 40
    error = " ".join(f"word{number}" for number in range(100)) + f" {path} end"
    view.statuses["a"] = instance("a", active(0, state=TaskState.FAILED, error=error), standby(1))
    state = ApplicationState(view)

    assert state.problems == (f"task 0_0: failed on a: {error}",)
    assert state.to_json()["problems"] == list(state.problems)
    text = state_text(state)
    assert error in " ".join(text.split())
    below = text.partition("problems:")[2].splitlines()
    assert len(below) > 5
    assert all(len(line) <= 120 for line in below if path not in line)


def test_instance_that_ended_is_named_with_the_reason_although_its_tasks_went_to_another() -> None:
    ended = instance("b", state=InstanceState.ENDED, error="AccessError: Reading app-assignment is not authorized")
    view = view_of(assigned("a", "a"), instance("a", active(0), active(1)), ended)
    said = "instance b: ended, and assigned nothing: AccessError: Reading app-assignment is not authorized"

    assert said in ApplicationState(view).problems
    view.assignment = None
    assert ApplicationState(view).problems == ("nothing is assigned yet", said)


def test_what_is_refused_to_an_instance_that_runs_is_a_problem() -> None:
    view = whole()
    view.statuses["a"] = dataclasses.replace(view.statuses["a"], error="Reading app-assignment is not authorized")

    assert ApplicationState(view).problems == ("instance a: running: Reading app-assignment is not authorized",)
    assert ApplicationState(view, {"a"}).problems[0] == (
        "instance a: silent (running): Reading app-assignment is not authorized"
    )


def test_nothing_assigned_is_a_problem() -> None:
    assert ApplicationState(ControlView(APPLICATION)).problems == ("nothing is assigned yet",)
    assert "generation none" in state_text(ApplicationState(ControlView(APPLICATION)))


def test_json_has_everything() -> None:
    found = json.loads(json.dumps(ApplicationState(whole(), {"b"}, watched=True).to_json()))

    assert found["assignment"]["tasks"]["0_0"]["active"] == "a"
    assert found["instances"]["a"]["tasks"][0]["processed_records"] == 12_345
    assert (found["instances"]["a"]["silent"], found["instances"]["b"]["silent"]) == (False, True)
    assert found["problems"] == ["instance b: silent (running)"]
    assert found["watcher"] is None
    assert [(row["task"], row["instance"], row["lag_records"]) for row in found["standbys"]] == [
        ("0_0", "b", 0),
        ("0_1", "a", 0),
    ]
    # Nobody would take over what a silent instance holds as a standby, and what it holds as the active one has failed.
    assert found["predicted_rto_ms"] == {"0_0": None}


def test_watcher_is_named_with_since_when_it_watches() -> None:
    view = whole()
    view.watcher = Watcher(application_id=APPLICATION, host="h9", pid=5, began_at_ms=1_000, sent_at_ms=61_000)

    lives, gone = ApplicationState(view, watched=True), ApplicationState(view)

    assert "watched by process 5 on h9 since 1970-01-01T00:00:01+00:00" in state_text(lives)
    assert lives.to_json()["watcher"]["watches"] is True
    assert "watched by none, last by process 5 on h9 until 1970-01-01T00:01:01+00:00" in state_text(gone)
    assert (gone.to_json()["watcher"]["watches"], gone.to_json()["watcher"]["host"]) == (False, "h9")


def test_predicted_rto_stands_beside_the_newest_that_was_measured() -> None:
    later = dataclasses.replace(failover(), id="later", tasks=(TaskId(0, 0),), rto=RtoParts(total_ms=2_400))

    state = ApplicationState(whole(), watched=True, history=[failover(), later])

    line = next(line for line in state_text(state).splitlines() if line.startswith("0_0   a"))
    assert line.split()[-4:] == [f"{state.to_json()['predicted_rto_ms']['0_0'] / 1000:.1f}", "s", "2.4", "s"]
    assert state.to_json()["measured_rto_ms"] == {"0_0": 2_400}


def test_standbys_have_a_table_of_their_own() -> None:
    text = state_text(ApplicationState(whole()), standbys=True)

    lines = [line.split() for line in text.splitlines()]
    assert ["0_0", "b", "warm", "0", "0.0", "-", "-", "0", "-"] in lines
    assert not any("active" in line for line in lines)
    assert text.endswith("no problems")


def test_instances_that_start_are_one_problem_whatever_is_assigned_to_them() -> None:
    view = whole()
    view.assignment = assigned("a b", "b a", "d a")
    view.statuses |= {name: instance(name, state=InstanceState.STARTING) for name in "ab"}
    view.statuses["d"] = instance("d", state=InstanceState.STARTING)

    assert ApplicationState(view).problems == ("starting, and the tasks of each wait for it: a, b, d",)
    assert "silent" not in state_text(ApplicationState(view))
    assert ApplicationState(view, {"d"}).problems == (
        "starting, and the tasks of each wait for it: a, b",
        "instance d: silent (starting)",
        "task 0_2: unknown on d",
    )


def test_application_from_which_an_upgrade_took_the_second_instance_lacks_its_standbys() -> None:
    view = view_of(assigned("a", "a"), instance("a", active(0), active(1)), instance("b", state=InstanceState.STARTING))
    lacking = (
        "task 0_{}: no standby is assigned (b not running: an upgrade or a start may be under way; if none is, run the "
        "deploy DAG)"
    )

    assert ApplicationState(view).problems == (lacking.format(0), lacking.format(1))
    assert ApplicationState(view, {"b"}).problems == (
        "instance b: silent (starting) for longer than a start may take: look at its log, then deploy it again",
        lacking.format(0),
        lacking.format(1),
    )


@pytest.mark.parametrize(
    "second",
    [
        instance("b", state=InstanceState.STOPPED, last_commands=("restart/run-1/upgrade_b/7",)),
        instance("b", state=InstanceState.ENDED),
        instance("b"),
    ],
    ids=["stopped-for-an-upgrade", "ended-by-itself", "running"],
)
def test_task_lacks_its_standby_while_a_second_instance_is_meant_to_run(second: InstanceStatus) -> None:
    (problem,) = ApplicationState(view_of(assigned("a"), instance("a", active(0)), second)).problems

    assert problem.startswith("task 0_0: no standby is assigned (")


@pytest.mark.parametrize(
    "others",
    [(), (instance("b", state=InstanceState.STOPPED, last_commands=("restart/run-1/b/7", "stop/run-2")),)],
    ids=["never-had-another", "stopped-the-other"],
)
def test_application_with_one_instance_on_purpose_lacks_no_standby(others: tuple[InstanceStatus, ...]) -> None:
    assert ApplicationState(view_of(assigned("a"), instance("a", active(0)), *others)).problems == ()


def test_as_many_standbys_are_wanted_as_was_said_and_instances_are_left_for() -> None:
    view = view_of(assigned("a b"), instance("a", active(0)), instance("b", standby(0)), instance("c"))

    assert ApplicationState(view).problems == ()
    assert ApplicationState(view, num_standby_replicas=5).problems == (
        "task 0_0: 1 of 2 standbys are assigned (a, b, c run: run the deploy DAG, or assign)",
    )
    view.assignment, view.statuses["b"] = assigned("a"), instance("b")
    assert ApplicationState(view, num_standby_replicas=0).problems == ()


def test_start_that_never_ends_is_a_problem_before_anything_is_assigned() -> None:
    view = view_of(None, instance("b", state=InstanceState.STARTING))

    assert len(ApplicationState(view, {"b"}).problems) == 2


def test_side_of_a_join_that_holds_time_back_is_named() -> None:
    behind = TimeStatus(watermark_ms=1_700_000_000_000, held_back_by="clicks", held_back_ms=3 * 3_600_000)
    tasks = [
        active(0, time=behind),
        active(1, time=TimeStatus(held_back_by="clicks")),
        active(2, time=dataclasses.replace(behind, held_back_ms=59_999)),
        active(3, time=TimeStatus(watermark_ms=1)),
    ]
    state = ApplicationState(view_of(assigned("a", "a", "a", "a"), instance("a", *tasks)))

    assert state.held_time == (
        "task 0_0: the watermark stands at 2023-11-14T22:13:20+00:00, because no later row of 'clicks' has come; the "
        "other side is 3 h further",
        "task 0_1: there is no watermark yet, because no row of 'clicks' has come",
    )
    assert "time that waits:" in state_text(state)
    assert state.to_json()["held_time"] == list(state.held_time)
    assert not any("clicks" in problem for problem in state.problems)


def test_tasks_of_a_changed_job_that_nobody_has_and_those_that_it_has_no_more_are_problems() -> None:
    view = view_of(assigned("a", "a"), instance("a", active(0), active(1)))
    words = stream("lines", schema="line STRING").group_by("line").aggregate(F.count().alias("n")).sink("out")
    job = StatefulJob(APPLICATION, words).description()
    view.job = job.with_partitions({"lines": 1})

    state = ApplicationState(view, num_standby_replicas=0)

    advice = "once the instances run this version of the job, assign the tasks"
    assert state.problems == (
        f"not assigned, though the job has them: 1_0: {advice}",
        f"assigned, though the job has them no more: 0_1: {advice}",
    )
    assert [line.split() for line in state_text(state).split("\n\n")[1].splitlines()] == [
        ["stage", "name", "reads", "store"],
        ["0", "out-repartition", "lines", "-"],
        ["1", "out", f"{APPLICATION}-out-repartition", "out"],
    ]


def test_task_that_waits_for_a_table_says_for_which_and_how_far_it_is() -> None:
    wait = TableWaitStatus(topic="customers", task=TaskId(1, 0), others=2, offset=None, end=8, for_s=12.3)
    view = whole()
    view.statuses["a"] = instance("a", active(0, source=SourceStatus(waits_for=wait)), standby(1))

    assert ApplicationState(view).problems == (
        "task 0_0: waits on a for 12 s until the table is read: task 1_0 and 2 more tasks are behind in 'customers', "
        "it has read 0 of 8; nothing is lost, look at task 1_0",
    )


def test_task_that_holds_the_time_of_others_back_is_named() -> None:
    behind = TimeStatus(watermark_ms=1_700_000_000_000, held_back_by="task 0_3", held_back_ms=120_000)

    assert held_time(active(TaskId(1, 0), time=behind)) == (
        "task 1_0: the watermark stands at 2023-11-14T22:13:20+00:00, because no later row of task 0_3 has come; "
        "another is 2 min further, and nothing is lost by waiting"
    )


def test_task_whose_query_has_not_called_yet_is_not_said_to_run() -> None:
    view = whole()
    source = SourceStatus(lag_records=1_400, uncommitted_records=3, gets_ready=True)
    view.statuses["a"] = instance("a", active(0, source=source), standby(1))

    state = ApplicationState(view)

    assert state.problems == (
        "task 0_0: gets ready on a: Spark has not begun its first micro-batch yet, while 1,403 records of its source "
        "wait",
    )
    (row,) = [line for line in state_text(state).splitlines() if line.startswith("0_0") and " active " in line]
    assert " gets ready " in row


def test_records_that_are_left_out_now_are_a_problem() -> None:
    losses = {TaskId(0, 0): Losses(late=3, left_out=0, late_in_all=1_042, left_out_in_all=3)}

    assert ApplicationState(whole()).problems == ()
    assert ApplicationState(whole(), losses=losses).problems == (
        "3 records came too late within the last ten minutes and were left out (task 0_0: 3), 1,042 since the "
        "application began",
    )


def test_instance_that_was_lost_without_a_word_is_not_said_to_run() -> None:
    """Its tasks went to the other one, and its own record says ever since that it runs and has them."""
    lost = instance("b", active(1), standby(0))
    view = view_of(assigned("a", "a"), instance("a", active(0), active(1)), lost)

    state = ApplicationState(view, {"b"})

    lacking = "task 0_{}: no standby is assigned (b not running: an upgrade or a start may be under way; if none is, "
    assert state.problems == (
        "instance b: silent (running), and assigned nothing: it was lost without a word; start it again",
        lacking.format(0) + "run the deploy DAG)",
        lacking.format(1) + "run the deploy DAG)",
    )
    rows = [line.split()[:4] for line in state_text(state).splitlines() if line.startswith("0_")]
    assert rows == [["0_0", "a", "active", "running"], ["0_1", "a", "active", "running"]]
    assert state.to_json()["standbys"] == []


def test_copy_of_a_silent_instance_is_shown_as_such_while_it_is_assigned() -> None:
    state = ApplicationState(whole(), {"b"})

    rows = {tuple(line.split()[:4]) for line in state_text(state).splitlines() if line.startswith("0_")}
    assert rows == {
        ("0_0", "a", "active", "running"),
        ("0_0", "b", "standby", "silent"),
        ("0_1", "b", "active", "silent"),
        ("0_1", "a", "standby", "warm"),
    }
    assert [(row["instance"], row["state"]) for row in state.to_json()["standbys"]] == [("b", "silent"), ("a", "warm")]


def fifty_tasks(error: str | None = None) -> ControlView:
    """Ten stages of five tasks on three instances, of which one is lost; the others' tasks have one error, or none."""
    names = ["a", "b", "c"]
    tasks = [TaskId(stage, partition) for stage in range(10) for partition in range(5)]
    holders = [(names[number % 3], names[(number + 1) % 3]) for number in range(50)]
    state = TaskState.RUNNING if error is None else TaskState.FAILED
    statuses = []
    for name in "ab":
        own = [
            active(task, state=state, error=error and error.format(task), processed_records=1_000)
            for task, (first, _) in zip(tasks, holders, strict=True)
            if first == name
        ]
        copies = [
            standby(task, error=error and error.format(task))
            for task, (_, second) in zip(tasks, holders, strict=True)
            if second == name
        ]
        statuses.append(instance(name, *own, *copies))
    ended = instance("c", state=InstanceState.ENDED, error="killed by signal 9")
    view = view_of(assigned(), *statuses, ended)
    given = {
        task: TaskAssignment(active=first, standbys=(second,), active_since=1)
        for task, (first, second) in zip(tasks, holders, strict=True)
    }
    view.assignment = dataclasses.replace(assigned(), tasks=given)
    lines = stream("lines", schema="line STRING, word STRING")
    sinks = [lines.group_by("word").aggregate(F.count().alias("n")).sink(f"out-{number}") for number in range(5)]
    view.job = StatefulJob(APPLICATION, *sinks).description().with_partitions({"lines": 5})
    return view


@pytest.mark.parametrize(
    "error",
    [None, "The brokers refuse to write to 'orders-out' for {}: " + "give the right to it. " * 30],
    ids=["whole-but-for-an-instance", "one-error-everywhere"],
)
def test_fifty_tasks_fit_a_screen_with_each_cause_and_its_tasks(error: str | None) -> None:
    state = ApplicationState(fifty_tasks(error))
    text = state_text(state)

    assert len(text.splitlines()) <= 40
    below = " ".join(text.partition("problems:")[2].split())
    assert below.startswith(
        "instance c: ended: killed by signal 9 (tasks 0_2, 1_0, 1_3, 2_1, 2_4, 3_2 and 10 more: unknown"
    )
    assert text.count("killed by signal 9") == 1
    assert text.count("The brokers refuse") == (error is not None)
    if error is not None:
        assert "tasks 0_0, 0_1, 0_3, 0_4, 1_1, 1_2 and 28 more: failed on a, b; tasks " in below
    for name in ("a", "b"):
        assert [name, "active", "running" if error is None else "failed", "17"] in [
            line.split()[:4] for line in text.splitlines()
        ]
    assert len(state.problems) == (1 + 16 + 17 if error is None else 1 + 50 + 50)

    everything = state_text(state, everything=True)
    assert len(re.findall(r"^\d_\d  ", everything, re.MULTILINE)) == 67
    assert " ".join(everything.split()).count("killed by signal 9") == 1
    assert all(problem in " ".join(everything.split()) for problem in state.problems)


def test_many_incidents_of_one_cause_are_one_line_with_their_tasks() -> None:
    view = whole()
    for number in range(6):
        failed = Incident(
            application_id=APPLICATION,
            kind=IncidentKind.TASK_FAILED,
            instance="a",
            incarnation=4,
            tasks=(TaskId(0, number),),
            evidence="no right to read",
            generation=1,
        )
        view.incidents[failed.id] = IncidentRecord(
            incident=failed, answered_by="run-1", detected_at_ms=None, decided_at_ms=5, generation=2, plan=()
        )
    state = ApplicationState(view)

    below = " ".join(state_text(state).partition("open incidents:")[2].partition("no other")[0].split())
    assert below.count("no right to read") == 1
    assert "[and 5 more that differ in numbers, of 0_1, 0_2, 0_3, 0_4, 0_5]" in below
    assert len(state.open_incidents) == 6
