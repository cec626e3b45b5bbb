from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.control.overview.application_state import ApplicationState
from airflow_provider.control.overview.verdict import Finding, Step, Word, step_of_error, verdict
from airflow_provider.control.records.incident import Unanswered, Watcher
from airflow_provider.control.records.status import InstanceState, InstanceStatus, TaskState
from airflow_provider.control.topics.view import ControlView
from tests.builders import APPLICATION, active, assigned, instance, standby, view_of

WATCHER = Watcher(application_id=APPLICATION, host="h9", pid=5, began_at_ms=1_000, sent_at_ms=1_000)


def seen(*statuses: InstanceStatus, tasks: tuple[str, ...] = ("a b",)) -> ControlView:
    view = view_of(assigned(*tasks), *statuses)
    view.watcher = WATCHER
    return view


def word_of(view: ControlView, *silent: str, watched: bool = True) -> tuple[Word, list[Step]]:
    found = ApplicationState(view, silent, watched=watched).verdict
    return found.word, [reason.step for reason in found.reasons]


A, B = instance("a", active(0)), instance("b", standby(0))


def test_application_is_safe_where_every_task_runs_and_is_warm_and_somebody_watches() -> None:
    assert word_of(seen(A, B)) == (Word.SAFE, [])


@pytest.mark.parametrize(
    ("statuses", "silent", "word", "steps"),
    [
        pytest.param((A,), (), Word.DEGRADED, [Step.UNDER_WAY], id="standbys-instance-is-gone"),
        pytest.param((A, instance("b")), (), Word.DEGRADED, [Step.UNDER_WAY], id="no-copy"),
        pytest.param((A, B), ("a",), Word.STANDING_STILL, [Step.UNDER_WAY], id="actives-instance-is-silent"),
        pytest.param((A, B), ("a", "b"), Word.STANDING_STILL, [Step.ALL_GONE, Step.ALL_GONE], id="all-are-silent"),
        pytest.param(
            (instance("a", active(0, TaskState.FAILED, error="bad", error_kind="DecodeError")), B),
            (),
            Word.STANDING_STILL,
            [Step.RECORD_ERROR],
            id="record-error",
        ),
        pytest.param(
            (instance("a", active(0, stalled_s=500.0, source_lag=5)), B), (), Word.STANDING_STILL,
            [Step.STANDS_STILL], id="stalled",
        ),
        pytest.param(
            (instance("a", active(0, error="x", error_kind="DecodeError", stalled_s=900.0, source_lag=5)), B), (),
            Word.STANDING_STILL, [Step.RECORD_ERROR],
            id="stalled-with-an-error",
        ),
        pytest.param(
            (instance("a", active(0, TaskState.OWNING)), B), (), Word.STANDING_STILL, [Step.UNDER_WAY],
            id="is-taken-over",
        ),
        pytest.param(
            (A, instance("b", state=InstanceState.STARTING, incarnation=1)), (), Word.DEGRADED, [Step.UNDER_WAY],
            id="standbys-instance-starts",
        ),
        pytest.param(
            (dataclasses.replace(A, paused=True), B), (), Word.STANDING_STILL, [Step.TOOLS], id="active-is-paused"
        ),
        pytest.param((A, dataclasses.replace(B, paused=True)), (), Word.DEGRADED, [Step.TOOLS], id="standby-is-paused"),
    ],
)  # fmt: skip
def test_word_is_the_worst_that_is_so(
    statuses: tuple[InstanceStatus, ...], silent: tuple[str, ...], word: Word, steps: list[Step]
) -> None:
    assert word_of(seen(*statuses), *silent) == (word, steps)


def test_application_that_nobody_watches_is_not_safe_though_all_else_is_well() -> None:
    state = ApplicationState(seen(A, B))

    assert (state.problems, state.verdict.word) == ((), Word.DEGRADED)
    assert state.verdict.reasons[0].text.startswith(f"nothing watches {APPLICATION}")


def test_that_nobody_watches_comes_first_where_a_task_waits_for_an_answer() -> None:
    found = ApplicationState(seen(A, B), ("a",)).verdict

    assert found.word is Word.STANDING_STILL
    assert [reason.step for reason in found.reasons] == [Step.NO_FAILOVER] * 2
    assert found.reasons[0].text.startswith(f"nothing watches {APPLICATION}")


def test_instances_that_were_stopped_are_not_lost() -> None:
    stopped = [instance(name, state=InstanceState.STOPPED) for name in "ab"]

    assert set(word_of(seen(*stopped))[1]) == {Step.STOPPED}


def test_failure_without_an_answer_comes_before_what_a_standby_lacks() -> None:
    view = seen(A, instance("b"))
    unanswered = Unanswered(incident="i", what="task_failed of 0_0", reported_at_ms=0)
    view.watcher = dataclasses.replace(WATCHER, unanswered=(unanswered,))

    assert word_of(view) == (Word.DEGRADED, [Step.NO_FAILOVER, Step.UNDER_WAY])


def test_unanswered_end_of_an_instance_that_has_standbys_alone_is_no_standstill() -> None:
    unanswered = Unanswered(incident="i", what="instance_ended of b", reported_at_ms=0)
    view = seen(A, instance("b", state=InstanceState.ENDED))
    view.watcher = dataclasses.replace(WATCHER, unanswered=(unanswered,))

    word, steps = word_of(view)

    assert (word, steps[0]) == (Word.DEGRADED, Step.NO_FAILOVER)


def test_one_cause_is_one_reason_with_what_follows_from_it() -> None:
    tasks = ("a b", "a b", "a b")
    view = seen(instance("a", *map(active, range(3))), instance("b", *map(standby, range(3))), tasks=tasks)

    found = ApplicationState(view, ("a",), watched=True).verdict

    assert [reason.text for reason in found.reasons] == [
        "instance a: silent (running)"
    ]  # what it said of its tasks last is not contradicted yet


def test_what_stands_still_comes_first_however_it_was_found() -> None:
    found = verdict([Finding("slow"), Finding("dead", Word.STANDING_STILL), Finding("slower")])

    assert (found.word, [reason.text for reason in found.reasons]) == (Word.STANDING_STILL, ["dead", "slow", "slower"])


def test_error_that_the_runbook_does_not_know_has_no_step() -> None:
    assert (step_of_error("StateError"), step_of_error("ValueError"), step_of_error(None)) == (Step.DISK, None, None)
