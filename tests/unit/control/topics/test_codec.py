from __future__ import annotations

import math

import msgspec
import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.incident import (
    Incident,
    IncidentKind,
    IncidentRecord,
    NotedRecovery,
    Recovery,
    Unanswered,
    Watcher,
)
from airflow_provider.control.records.status import InstanceState, InstanceStatus, WorkStatus
from airflow_provider.control.topics.codec import (
    FORMAT,
    Value,
    apply,
    claim_key,
    instance_of,
    to_key,
    to_value,
    topic_of,
)
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.kafka.names import status_topic
from tests.builders import APPLICATION, active, assigned, instance, promoted, standby

INCIDENT = Incident(
    application_id=APPLICATION,
    kind=IncidentKind.INSTANCE_ENDED,
    instance="a",
    incarnation=1,
    tasks=(TaskId(0, 0), TaskId(0, 2)),
    evidence="killed",
)
VALUES: list[Value] = [
    assigned("a b", "- c"),
    instance("a", active(0), standby(1)),
    Command(id="c1", kind=CommandKind.REPLAY, instance="a", incarnation=7, tasks=(TaskId(0, 1), TaskId(0, 2))),
    Deployment(
        application_id=APPLICATION,
        instance="a",
        application="/job.py",
        kafka_conn_id="kafka",
        spark_conn_id="spark",
        state_dir="/state",
        run_dir="/run",
        conf={"spark.x": "1"},
        application_args=("--y",),
        env_vars={"Z": "2"},
    ),
    IncidentRecord(
        incident=INCIDENT,
        answered_by="run",
        detected_at_ms=1,
        decided_at_ms=2,
        generation=3,
        plan=(promoted(0, "b"),),
        failed_at_ms=4,
    ),
    NotedRecovery(
        incident=INCIDENT.id,
        decided_at_ms=2,
        recovery=Recovery(resumed_offsets={TaskId(0, 2): 7}, owned_at_ms=5, first_commit_at_ms=6),
    ),
    Watcher(
        application_id=APPLICATION,
        host="triggerer",
        pid=7,
        began_at_ms=1,
        sent_at_ms=2,
        unanswered=(Unanswered(incident="a/1/gone-1", what="instance_ended of a", reported_at_ms=1),),
    ),
]


def put(view: ControlView, value: Value, at_ms: int = 1) -> bool:
    return apply(view, to_key(value), to_value(value), at_ms)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_is_read_as_it_was_written(value: Value) -> None:
    view = ControlView(APPLICATION)

    assert put(view, value)

    held = [view.assignment, view.watcher, *view.statuses.values(), *view.commands.get("a", {}).values()]
    assert value in [*held, *view.deployments.values(), *view.incidents.values(), *view.recoveries.values()]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_fields_that_a_newer_version_added_are_skipped(value: Value) -> None:
    newer = msgspec.json.encode({**msgspec.json.decode(to_value(value)), "colour": {"of": "the newer version"}})
    view = ControlView(APPLICATION)

    assert apply(view, to_key(value), newer, 1)

    assert not view.unreadable


def test_heartbeat_of_a_version_that_told_no_lateness_is_read() -> None:
    told = WorkStatus(commits=3, lateness_avg_ms=2.5, lateness_max_ms=9)
    heartbeat = msgspec.json.decode(to_value(instance("a", active(0, work=told))))
    for name in ("lateness_avg_ms", "lateness_max_ms"):
        del heartbeat["tasks"][0]["work"][name]
    view = ControlView(APPLICATION)

    assert apply(view, b"instance/a", msgspec.json.encode(heartbeat), 1)

    assert view.statuses["a"].tasks[0].work == WorkStatus(commits=3)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_newer_format_is_refused_with_what_to_do(value: Value) -> None:
    newer = msgspec.json.encode({**msgspec.json.decode(to_value(value)), "format": FORMAT + 1})
    view = ControlView(APPLICATION)

    apply(view, to_key(value), newer, 1)

    assert view.unreadable[to_key(value)] == (
        "found format 2, this version reads up to 1: a newer version wrote it, so upgrade this one"
    )


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_without_a_format_is_of_the_first(value: Value) -> None:
    first = msgspec.json.decode(to_value(value))
    assert first.pop("format") == FORMAT

    assert apply(ControlView(APPLICATION), to_key(value), msgspec.json.encode(first), 1)


@pytest.mark.parametrize("value", VALUES[1:], ids=lambda value: type(value).__name__)
def test_deleted_value_is_gone(value: Value) -> None:
    view = ControlView(APPLICATION)
    put(view, value)

    assert apply(view, to_key(value), None, 2)
    held = [view.statuses, view.commands.get("a"), view.deployments, view.incidents, view.heard_at_ms, view.watcher]
    assert not any(held)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_published_in_a_transaction_lies_beside_no_heartbeat(value: Value) -> None:
    heartbeat = isinstance(value, (InstanceStatus, Watcher))

    assert (topic_of(value, APPLICATION) == status_topic(APPLICATION)) == heartbeat


def test_status_under_the_key_of_another_instance_is_left_out() -> None:
    view = ControlView(APPLICATION)
    put(view, instance("b", active(0)), at_ms=10)

    forged = to_value(instance("b", incarnation=9))

    assert not apply(view, b"instance/a", forged, 20)
    assert (view.statuses["b"].incarnation, list(view.statuses)) == (1, ["b"])


def test_watcher_moves_no_clock_by_which_instances_are_judged() -> None:
    view = ControlView(APPLICATION)
    put(view, instance("a", active(0)), at_ms=10)

    put(view, Watcher(application_id=APPLICATION, host="triggerer", pid=7, began_at_ms=1, sent_at_ms=2), at_ms=90_000)

    assert view.silent_for_s == {"a": 0.0}


def test_silence_of_a_watcher_is_told_by_the_heartbeats_that_came_since() -> None:
    view = ControlView(APPLICATION)
    assert view.watcher_silent_for_s == math.inf
    watcher = Watcher(application_id=APPLICATION, host="triggerer", pid=7, began_at_ms=1, sent_at_ms=2)
    put(view, instance("a", active(0)), at_ms=9_000)
    put(view, watcher, at_ms=10_000)

    put(view, instance("a", active(0)), at_ms=25_000)

    assert view.watcher_silent_for_s == 15.0
    # The broker's clock goes back by 20 s, with all that was heard.
    put(view, instance("a", active(0)), at_ms=5_000)
    assert view.watcher_silent_for_s == 15.0


def test_claim_stands_for_its_process_until_the_first_heartbeat() -> None:
    view, claim = ControlView(APPLICATION), instance("a", state=InstanceState.STARTING, incarnation=2)
    put(view, instance("a", state=InstanceState.ENDED, incarnation=1), at_ms=10)

    assert apply(view, claim_key("a"), to_value(claim), 20)

    assert view.statuses["a"] == claim
    assert (view.heard_at_ms["a"], view.newest_ms) == (20, 10)


def test_claim_that_is_read_after_the_heartbeats_of_its_process_changes_nothing() -> None:
    view, running = ControlView(APPLICATION), instance("a", incarnation=2)
    put(view, running, at_ms=30)

    assert not apply(view, claim_key("a"), to_value(instance("a", state=InstanceState.STARTING, incarnation=2)), 20)

    assert (view.statuses["a"], view.heard_at_ms["a"]) == (running, 30)


def test_commands_to_one_instance_do_not_replace_each_other() -> None:
    view = ControlView(APPLICATION)
    commands = [Command(id=f"run/{number}", kind=CommandKind.REPLAY, instance="a") for number in range(3)]
    for command in commands:
        put(view, command)

    assert list(view.commands["a"].values()) == commands

    apply(view, to_key(commands[1]), None, 1)
    assert list(view.commands["a"]) == ["run/0", "run/2"]


def test_older_generation_changes_nothing() -> None:
    view = ControlView(APPLICATION)
    put(view, assigned("a", generation=3))

    assert not put(view, assigned("b", generation=2))
    assert isinstance(view.assignment, Assignment)
    assert view.assignment.generation == 3


def test_zombie_of_an_earlier_incarnation_is_not_heard() -> None:
    view = ControlView(APPLICATION)
    put(view, instance("a", incarnation=2), at_ms=10)

    assert not put(view, instance("a", incarnation=1), at_ms=20)
    assert view.heard_at_ms == {"a": 10}


def test_heartbeat_that_arrives_after_the_end_does_not_bring_the_process_back() -> None:
    view = ControlView(APPLICATION)
    put(view, instance("a", state=InstanceState.ENDED))

    assert not put(view, instance("a"))
    assert view.statuses["a"].state is InstanceState.ENDED


def test_next_incarnation_lives_again() -> None:
    view = ControlView(APPLICATION)
    put(view, instance("a", state=InstanceState.ENDED))

    assert put(view, instance("a", incarnation=2, state=InstanceState.STARTING))


def test_unknown_key_is_skipped() -> None:
    view = ControlView(APPLICATION)

    assert not apply(view, b"something/else", b"not even JSON", 5)
    assert not view.unreadable


def test_only_a_status_has_an_instance() -> None:
    assert [instance_of(to_key(value)) for value in VALUES] == [None, "a", None, None, None, None, None]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(b"instance/a", b"{no json", id="no-json"),
        pytest.param(b"instance/a", b'{"application_id": "app"}', id="field-missing"),
        pytest.param(b"instance/a", b"\xff\xfe", id="no-text"),
        pytest.param(b"instance/a", b'{"application_id":"\xff"}', id="a-text-that-is-none"),
        pytest.param(b"instance/a", b'{"tasks":' + b"[" * 100_000, id="too-deep"),
        pytest.param(
            b"assignment",
            b'{"application_id":"app","generation":9,"tasks":[{"active":"a","standbys":["a"]}]}',
            id="assignment-that-names-an-instance-twice",
        ),
    ],
)
def test_record_that_cannot_be_read_is_reported_and_hides_nothing(
    key: bytes, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    view = ControlView(APPLICATION)
    put(view, assigned("a"))
    put(view, instance("a", active(0)))

    assert apply(view, key, value, 2)

    assert set(view.unreadable) == {key}
    assert repr(key) in caplog.text
    assert view.assignment == assigned("a")
    assert view.statuses["a"].tasks == (active(0),)
    put(view, instance("a", active(0)))
    put(view, assigned("a", generation=10))
    assert not view.unreadable


def test_deletion_of_what_cannot_be_read_mends_the_view() -> None:
    view = ControlView(APPLICATION)
    apply(view, b"instance/a", b"{", 1)

    apply(view, b"instance/a", None, 2)

    assert not view.unreadable


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000], ids=["an-hour-ahead", "an-hour-back"])
def test_jump_of_the_brokers_clock_silences_nobody_who_speaks(jump_ms: int) -> None:
    view, start_ms = ControlView(APPLICATION), 10_000_000
    for name in "ab":
        put(view, instance(name), at_ms=start_ms)
    for name in "ab":
        put(view, instance(name), at_ms=start_ms + jump_ms + 500)

    assert view.healthy(Timeouts()) == ("a", "b")


def test_instance_that_was_silent_before_the_brokers_clock_went_back_stays_so() -> None:
    view, start_ms = ControlView(APPLICATION), 10_000_000
    for name in "ab":
        put(view, instance(name), at_ms=start_ms)
    for second in range(1, 10):
        put(view, instance("b"), at_ms=start_ms + 1_000 * second)
    put(view, instance("b"), at_ms=start_ms - 3_600_000)

    assert view.healthy(Timeouts()) == ("b",)


@pytest.mark.parametrize(
    ("silent_s", "healthy"),
    [
        pytest.param(4, ("runs", "starts"), id="spoke-just-now"),
        pytest.param(6, ("starts",), id="start-may-be-silent-for-longer"),
        pytest.param(181, (), id="start-that-takes-too-long"),
    ],
)
def test_instance_that_starts_is_healthy_for_as_long_as_a_start_may_take(
    silent_s: int, healthy: tuple[str, ...]
) -> None:
    view = ControlView(APPLICATION)
    put(view, instance("starts", state=InstanceState.STARTING), at_ms=10_000)
    put(view, instance("runs"), at_ms=10_000)
    put(view, instance("ended", state=InstanceState.ENDED), at_ms=10_000 + 1_000 * silent_s)

    assert view.healthy(Timeouts()) == healthy


def test_append_times_of_the_other_topic_move_no_clock() -> None:
    view = ControlView(APPLICATION)
    put(view, instance("a"), at_ms=5_000)

    put(view, assigned("a"), at_ms=1_000)
    put(view, assigned("a", generation=2), at_ms=60_000)

    assert view.silent_for_s == {"a": 0.0}
