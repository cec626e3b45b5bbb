from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from airflow_provider.common.json_codec import to_json
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.incident import IncidentKind
from airflow_provider.control.records.status import (
    DiskStatus,
    FailureStatus,
    InstanceState,
    InstanceStatus,
    SourceStatus,
    TaskState,
    WorkStatus,
)
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.errors import ConfigurationError, TopicMissingError
from airflow_provider.streaming.driver.heartbeat import FailureClock, Heartbeat, RecentRate
from tests.builders import active, assigned
from tests.unit.streaming.driver.fakes import ACTIVE, STANDBY, plan, settings_in, status_of
from tests.waiting import wait_until

NEVER_S = 3600.0
COMMAND = Command(id="c1", kind=CommandKind.PAUSE, instance="i1")


def test_time_counts_from_the_first_report_of_the_failure() -> None:
    clock, failed = FailureClock(), active(0, TaskState.FAILED)

    assert clock.failed_s(active(0), 1.0) is None
    assert clock.failed_s(failed, 10.0) == 0.0
    assert clock.failed_s(failed, 402.5) == 392.5


def test_task_that_went_on_or_failed_in_another_generation_counts_afresh() -> None:
    clock, failed = FailureClock(), active(0, TaskState.FAILED)
    clock.failed_s(failed, 1.0)

    assert clock.failed_s(active(0, TaskState.FAILED, generation=2), 5.0) == 0.0
    assert clock.failed_s(active(0), 6.0) is None
    assert clock.failed_s(failed, 8.0) == 0.0
    assert clock.failed_s(active(1, TaskState.FAILED), 9.0) == 0.0


def test_rate_is_that_of_the_last_five_seconds_however_often_it_is_asked_for() -> None:
    """One micro-batch every two seconds, a heartbeat every second."""
    rate = RecentRate()

    seen = [rate.with_rates(active(0, processed_records=200 * (at // 2)), float(at)).records_per_s for at in range(20)]

    assert all(80.0 <= one <= 120.0 for one in seen[6:]), seen


def test_rate_of_a_task_that_is_counted_anew_or_has_had_no_input_for_long_is_none() -> None:
    rate = RecentRate()
    rate.with_rates(active(0), 0.0)
    assert rate.with_rates(active(0, processed_records=500), 1.0).records_per_s == 500.0

    assert rate.with_rates(active(0, processed_records=500), 90.0).records_per_s == 0.0
    assert rate.with_rates(active(0, processed_records=10), 91.0).records_per_s == 0.0


def test_time_of_a_record_and_of_a_commit_is_that_of_the_last_seconds() -> None:
    rate = RecentRate()

    def seen(at: float, records: int, **work: Any) -> WorkStatus:
        return rate.with_rates(active(0, processed_records=records, work=WorkStatus(**work)), at).work

    assert seen(0.0, 0) == WorkStatus()
    late = {"lateness_avg_ms": 2.5, "lateness_max_ms": 9}
    lately = seen(2.0, 1_000, commits=4, process_s=0.002, commit_s=0.1, **late)
    assert (lately.commits_per_s, lately.process_latency_ns, lately.commit_latency_ms) == (2.0, 2_000.0, 25.0)
    assert (lately.commits, lately.process_s, lately.commit_s) == (4, 0.002, 0.1)
    assert (lately.lateness_avg_ms, lately.lateness_max_ms) == (2.5, 9)
    idle = seen(90.0, 1_000, commits=4, process_s=0.002, commit_s=0.1, **late)
    assert (idle.commits_per_s, idle.process_latency_ns, idle.commit_latency_ms) == (0.0, None, None)
    assert (idle.lateness_avg_ms, idle.lateness_max_ms) == (None, None)
    next_owner = seen(91.0, 0, commits=1, commit_s=0.01)
    assert (next_owner.commits_per_s, next_owner.commit_latency_ms) == (0.0, None)


class FakeWriter:
    """Keeps what is sent; what is written last is stored."""

    def __init__(self) -> None:
        self.sent: list[InstanceStatus] = []
        self.stored: InstanceStatus | None = None
        self.forgotten: list[str] = []
        self.closed = threading.Event()
        self.unauthorized: Exception | None = None

    def send(self, value: InstanceStatus) -> None:
        self.sent.append(value)

    def forget(self, value: Command) -> None:
        assert value.id in self.sent[-1].last_commands or self.stored is not None
        self.forgotten.append(value.id)

    def write(self, value: InstanceStatus) -> None:
        self.stored = value

    def check(self) -> None:
        if self.unauthorized is not None:
            raise self.unauthorized

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def writer() -> FakeWriter:
    return FakeWriter()


@pytest.fixture
def heartbeat(writer: FakeWriter, tmp_path: Path) -> Iterator[Heartbeat]:
    """Started, and so slow that only what is sent at once is seen."""
    heartbeat = Heartbeat(settings_in(tmp_path, heartbeat_interval_s=NEVER_S), writer)
    heartbeat.start()
    wait_until(lambda: writer.sent, 10, "the first heartbeat")
    yield heartbeat
    if not writer.closed.is_set():
        heartbeat.end(InstanceState.STOPPED, None)


def test_place_of_sparks_ui_is_sent_at_once(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    heartbeat.set_ui_url("http://h1:4040")

    wait_until(lambda: writer.sent[-1].process.ui_url == "http://h1:4040", 10, "the next heartbeat")
    assert writer.sent[-1].process.pid


def test_first_heartbeat_names_the_process_and_its_disk(
    heartbeat: Heartbeat, writer: FakeWriter, tmp_path: Path
) -> None:
    first = writer.sent[0]

    assert (first.application_id, first.instance, first.incarnation) == ("app", "i1", 7)
    assert (first.state, first.disk.folder) == (InstanceState.STARTING, str(tmp_path / "state"))
    assert first.sent_at_ms > 0


def test_disk_that_was_measured_is_in_the_next_one(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    heartbeat.set_disk(DiskStatus("/state", 5, 7, "h2"))
    heartbeat.set_state(InstanceState.RUNNING)

    wait_until(lambda: writer.sent[-1].state is InstanceState.RUNNING, 10, "the next heartbeat")
    assert writer.sent[-1].disk == DiskStatus("/state", 5, 7, "h2")


def test_every_interval_brings_one(writer: FakeWriter, tmp_path: Path) -> None:
    heartbeat = Heartbeat(settings_in(tmp_path, heartbeat_interval_s=0.01), writer)
    heartbeat.start()

    wait_until(lambda: len(writer.sent) > 3, 10, "some heartbeats")
    heartbeat.end(InstanceState.STOPPED, None)


def test_change_of_the_instance_is_sent_at_once(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    heartbeat.set_state(InstanceState.RUNNING)
    heartbeat.set_plans(3, {})
    heartbeat.set_done(COMMAND)
    heartbeat.set_paused(True)
    heartbeat.set_stop(hand_over=False)
    heartbeat.set_error("one record cannot be read")

    def last() -> tuple[object, ...]:
        newest = writer.sent[-1]
        return newest.state, newest.generation, newest.last_commands, newest.paused, newest.stop_hand_over, newest.error

    changed = (InstanceState.RUNNING, 3, ("c1",), True, False, "one record cannot be read")
    wait_until(lambda: last() == changed, 10, "the changes to be sent")


def test_command_is_removed_once_a_status_says_that_it_is_done(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    for number in range(40):
        heartbeat.set_done(dataclasses.replace(COMMAND, id=f"c{number}"))
        wait_until(lambda number=number: f"c{number}" in writer.forgotten, 10, "the command to be removed")  # type: ignore[misc]

    assert writer.sent[-1].last_commands == tuple(f"c{number}" for number in range(8, 40))


def test_refusal_is_reported_as_long_as_its_command_is(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    heartbeat.set_done(COMMAND, refusal="the job allows no faults")
    heartbeat.set_done(dataclasses.replace(COMMAND, id="c2"))
    wait_until(lambda: writer.forgotten == ["c1", "c2"], 10, "both commands to be removed")
    assert (writer.sent[-1].last_commands, dict(writer.sent[-1].refusals)) == (
        ("c1", "c2"),
        {"c1": "the job allows no faults"},
    )

    for number in range(40):
        heartbeat.set_done(dataclasses.replace(COMMAND, id=f"later-{number}"))
        wait_until(lambda: len(writer.forgotten) == 3 + number, 10, "it to be removed")  # noqa: B023
    assert writer.sent[-1].refusals == {}


def test_command_that_ends_the_instance_is_removed_too(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    heartbeat.set_done(COMMAND)
    heartbeat.end(InstanceState.STOPPED, None)

    assert writer.forgotten == ["c1"]
    assert writer.stored is not None
    assert writer.stored.last_commands == ("c1",)


def test_state_of_a_task_is_sent_at_once_and_its_progress_is_not(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    restoring = status_of(0, TaskState.RESTORING, lag_records=9, position=1)
    heartbeat.report(0, (restoring,))
    wait_until(lambda: writer.sent[-1].tasks, 10, "the task to be sent")
    sent = len(writer.sent)

    heartbeat.report(0, (status_of(0, TaskState.RESTORING, lag_records=8, position=2),))
    heartbeat.report(0, (status_of(0, TaskState.RUNNING, lag_records=0, position=10),))
    wait_until(lambda: writer.sent[-1].tasks[0].state is TaskState.RUNNING, 10, "the state to be sent")

    assert len(writer.sent) == sent + 1


def test_time_since_a_task_failed_is_reported_as_long_as_it_has(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    def failed_s() -> float | None:
        return next(iter(task.failed_s for task in writer.sent[-1].tasks), None)

    heartbeat.report(0, (dataclasses.replace(status_of(0), state=TaskState.FAILED),))
    wait_until(lambda: failed_s() is not None, 10, "the failure")
    first = failed_s()

    heartbeat.set_error("another heartbeat")
    wait_until(lambda: writer.sent[-1].error is not None, 10, "another heartbeat")
    assert (failed_s() or 0.0) >= (first or 0.0)
    assert failed_s() is not None

    heartbeat.report(0, (status_of(0),))
    wait_until(lambda: failed_s() is None, 10, "it to go on")


def test_tasks_of_all_slots_are_sent_in_the_order_of_their_numbers(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    heartbeat.report(1, (status_of(1), status_of(3)))
    heartbeat.report(0, (status_of(0), status_of(2)))

    wait_until(
        lambda: [str(task.task) for task in writer.sent[-1].tasks] == ["0_0", "0_1", "0_2", "0_3"], 10, "all tasks"
    )


def test_last_one_is_stored_without_tasks(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    heartbeat.report(0, (status_of(0),))

    heartbeat.end(InstanceState.ENDED, TopicMissingError("it is gone"))

    assert writer.stored is not None
    assert (writer.stored.state, writer.stored.error) == (InstanceState.ENDED, "TopicMissingError: it is gone")
    assert writer.stored.error_kind == "TopicMissingError"
    assert writer.stored.tasks == ()
    assert writer.closed.is_set()


def test_records_per_second_start_anew_with_the_task(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    for processed, state in ((1_000, TaskState.RUNNING), (0, TaskState.OWNING)):
        heartbeat.report(0, (status_of(0, state, processed_records=processed),))
        wait_until(lambda state=state: _state(writer) is state, 10, f"a task that is {state.value}")  # type: ignore[misc]

    assert writer.sent[-1].tasks[0].records_per_s == 0.0


def _state(writer: FakeWriter) -> TaskState | None:
    tasks = writer.sent[-1].tasks
    return tasks[0].state if tasks else None


class BoundedWriter(FakeWriter):
    """Refuses, as Kafka's producer does, what is too large for a record."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.max_bytes = max_bytes
        self.refused = 0

    def send(self, value: InstanceStatus) -> None:
        if len(to_json(value)) > self.max_bytes:
            self.refused += 1
            raise KafkaException("Message size too large")
        super().send(value)


def test_error_text_of_megabytes_does_not_silence_the_instance(tmp_path: Path) -> None:
    writer = BoundedWriter(max_bytes=1_000_000)
    heartbeat = Heartbeat(settings_in(tmp_path, heartbeat_interval_s=0.01), writer)
    heartbeat.start()
    error = ValueError(f"rows: {'x' * 5_000_000}")

    failed = dataclasses.replace(status_of(0, TaskState.FAILED), failure=FailureStatus.of(error))
    heartbeat.report(0, (failed,))
    heartbeat.set_error(str(error))

    wait_until(
        lambda: writer.sent and _state(writer) is TaskState.FAILED and writer.sent[-1].error,
        10,
        "the failure to be sent",
    )
    assert str(writer.sent[-1].tasks[0].error).startswith("rows: xxx")
    heartbeat.end(InstanceState.ENDED, error)
    assert writer.stored is not None
    assert len(to_json(writer.stored)) < 10_000


def test_heartbeat_too_large_for_a_record_is_sent_with_short_errors(tmp_path: Path) -> None:
    writer = BoundedWriter(max_bytes=45_000)
    heartbeat = Heartbeat(settings_in(tmp_path, heartbeat_interval_s=0.01), writer)
    heartbeat.start()
    failure = FailureStatus("ValueError", "why " + "x" * 1_900)

    heartbeat.report(0, tuple(dataclasses.replace(status_of(n, TaskState.FAILED), failure=failure) for n in range(20)))

    wait_until(lambda: writer.sent and _state(writer) is TaskState.FAILED, 10, "the failures to be sent")
    assert all(str(task.error).startswith("why x") for task in writer.sent[-1].tasks)
    heartbeat.end(InstanceState.STOPPED, None)


def commands(number: int) -> list[Command]:
    return [Command(id=f"c{n}", kind=CommandKind.PAUSE, instance="i1") for n in range(number)]


def test_each_of_many_commands_between_two_heartbeats_is_named_before_it_is_removed(
    heartbeat: Heartbeat, writer: FakeWriter
) -> None:
    given = commands(1_300)
    for command in given:
        heartbeat.set_done(command)

    wait_until(lambda: len(writer.forgotten) == len(given), 10, "all commands to be removed")
    named = {id for status in writer.sent for id in status.last_commands}
    assert named >= {command.id for command in given}
    assert max(len(status.last_commands) for status in writer.sent) <= 500


def test_each_of_many_commands_at_the_end_is_named_before_it_is_removed(tmp_path: Path) -> None:
    writer = FakeWriter()
    heartbeat = Heartbeat(settings_in(tmp_path, heartbeat_interval_s=60.0), writer)
    given = commands(40)
    for command in given:
        heartbeat.set_done(command)

    heartbeat.start()
    heartbeat.end(InstanceState.STOPPED, None)

    named = {id for status in [*writer.sent, writer.stored] if status is not None for id in status.last_commands}
    assert named == {command.id for command in given} == set(writer.forgotten)


def test_any_error_of_sending_is_survived(tmp_path: Path) -> None:
    writer = BoundedWriter(max_bytes=0)
    heartbeat = Heartbeat(settings_in(tmp_path, heartbeat_interval_s=0.01), writer)
    heartbeat.start()
    heartbeat.report(0, (status_of(0),))

    writer.max_bytes = 1_000_000

    wait_until(lambda: writer.sent, 10, "a heartbeat after those that failed")
    heartbeat.end(InstanceState.STOPPED, None)


def test_heartbeats_that_may_not_be_written_are_an_error_of_the_instance(
    heartbeat: Heartbeat, writer: FakeWriter
) -> None:
    heartbeat.check()

    writer.unauthorized = ConfigurationError("grant Write")

    with pytest.raises(ConfigurationError, match="grant Write"):
        heartbeat.check()


def test_command_is_kept_while_no_heartbeat_can_say_that_it_is_done(tmp_path: Path) -> None:
    writer = BoundedWriter(max_bytes=0)
    heartbeat = Heartbeat(settings_in(tmp_path, heartbeat_interval_s=0.01), writer)
    heartbeat.start()
    heartbeat.set_done(COMMAND)
    wait_until(lambda: writer.refused > 2, 10, "some heartbeats that cannot be sent")
    assert writer.forgotten == []

    writer.max_bytes = 1_000_000

    wait_until(lambda: writer.forgotten == ["c1"], 10, "the command to be removed")
    heartbeat.end(InstanceState.STOPPED, None)


def test_what_was_sent_last_is_at_hand(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    heartbeat.set_plans(3, {})
    wait_until(lambda: writer.sent[-1].generation == 3, 10, "a heartbeat")

    assert heartbeat.last == writer.sent[-1]


def test_task_that_is_to_be_active_is_missed_although_its_worker_still_says_what_it_was(
    heartbeat: Heartbeat, writer: FakeWriter
) -> None:
    heartbeat.set_state(InstanceState.RUNNING)
    was_active = status_of(1, generation=2, owned_at_ms=5, first_commit_at_ms=6, resumed_offset=7, source_offset=40)
    heartbeat.report(0, (status_of(0, TaskState.FOLLOWING, STANDBY, source_offset=40), was_active))
    heartbeat.set_seen(
        lambda _, task, __: dataclasses.replace(
            task, source=SourceStatus(stalled_s=130.0 if task.role is ACTIVE else 0)
        )
    )
    plans = {0: [plan(0, generation=6), plan(1, generation=6), plan(2, STANDBY, generation=6)], 1: [plan(3)]}
    heartbeat.set_plans(6, plans)

    wait_until(lambda: writer.sent[-1].generation == 6, 10, "the next heartbeat")
    promoted, again, new = writer.sent[-1].tasks
    assert [(t.role, t.state, t.generation) for t in (promoted, again)] == [(ACTIVE, TaskState.OWNING, 6)] * 2
    assert (again.owned_at_ms, again.first_commit_at_ms, again.resumed_offset) == (None, None, None)
    assert (promoted.source_offset, again.source_offset) == (40, 40)
    assert (new.task.partition, new.state, new.generation) == (3, TaskState.OWNING, 1)
    found = detect(
        assigned("i1", "i1", generation=6),
        {"i1": writer.sent[-1]},
        {"i1": 0.1},
        Timeouts(instance_s=5.0, stall_s=120.0),
    )
    assert [(incident.kind, incident.tasks) for incident in found] == [
        (IncidentKind.TASK_STALLED, (promoted.task,)),
        (IncidentKind.TASK_STALLED, (again.task,)),
    ]

    owned = status_of(0, TaskState.RESTORING, generation=6, owned_at_ms=9)
    heartbeat.report(0, (owned,))

    wait_until(lambda: writer.sent[-1].tasks[0].state is TaskState.RESTORING, 10, "what the worker says then")
    assert writer.sent[-1].tasks[0].owned_at_ms == 9


def test_task_that_is_closed_while_the_slots_stop_is_not_missed(heartbeat: Heartbeat, writer: FakeWriter) -> None:
    heartbeat.set_state(InstanceState.RUNNING)
    heartbeat.set_plans(6, {0: [plan(0, generation=6)]})
    heartbeat.report(0, (status_of(0, generation=6),))
    wait_until(lambda: {task.state for task in writer.sent[-1].tasks} == {TaskState.RUNNING}, 10, "the task to run")
    before = len(writer.sent)

    heartbeat.clear_plans()
    heartbeat.report(0, ())

    # As long as it has not ended, whether it ends cleanly or with an error.
    wait_until(lambda: writer.sent[-1].tasks == (), 10, "a heartbeat without the task")
    assert {task.state for sent in writer.sent[before:] for task in sent.tasks} <= {TaskState.RUNNING}
