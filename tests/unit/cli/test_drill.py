from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Self

import pytest

from airflow_provider.cli import drill as cli_drill
from airflow_provider.cli.drill import drill_text, exit_status_of, not_whole
from airflow_provider.cli.main import main
from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills import rehearsal
from airflow_provider.control.records.drill_fault import DrillKind, InjectedFault
from airflow_provider.control.records.history import (
    HistoryKind,
    HistoryOutcome,
    HistoryRecord,
    OutputCheck,
    OutputCount,
    RtoParts,
)
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.conditions import Condition, FaultTaken, Outcome, WaitResult
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, DeadlineError, InstanceError
from tests.builders import active, assigned, instance, standby, view_of


def drill(outcome: HistoryOutcome, reason: str | None = None) -> HistoryRecord:
    return HistoryRecord(
        application_id="orders",
        kind=HistoryKind.DRILL,
        id="d1",
        cause="crash",
        at_ms=1,
        by="me",
        outcome=outcome,
        reason=reason,
        instances=("a",),
        rto=RtoParts(detected_ms=20, decided_ms=1_300, owned_ms=180, first_output_ms=None, total_ms=None),
    )


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (HistoryOutcome.PASSED, ExitStatus.FINE),
        (HistoryOutcome.FAILED, ExitStatus.NO),
        (HistoryOutcome.SKIPPED, ExitStatus.SKIPPED),
    ],
)
def test_script_is_told_how_it_ended(outcome: HistoryOutcome, status: ExitStatus) -> None:
    assert exit_status_of(drill(outcome)) is status


def test_rto_is_printed_by_its_parts_with_the_reason() -> None:
    lines = [line.split() for line in drill_text(drill(HistoryOutcome.FAILED, "it went on\n at 5")).splitlines()]

    assert lines[0] == ["drill", "(crash)", "of", "a:", "failed"]
    assert ["detection", "to", "decision", "1.30", "s"] in lines
    assert ["owned", "to", "the", "first", "output", "-"] in lines
    assert lines[-1] == ["it", "went", "on", "at", "5"]


def test_outputs_are_printed_by_count_or_with_the_reason_why_there_is_none() -> None:
    record = drill(HistoryOutcome.PASSED)
    counted = OutputCheck(counts=(OutputCount(topic="out", committed=1_200, found=1_200),))

    assert drill_text(dataclasses.replace(record, outputs=counted)).splitlines()[-1].split() == [
        "in", "out,", "of", "1,200", "committed", "1,200"
    ]  # fmt: skip
    unmeasured = drill_text(dataclasses.replace(record, outputs=OutputCheck(unmeasured="the job has\n no sink")))
    assert unmeasured.splitlines()[-1] == "  outputs were not counted: the job has no sink"


class Reader:
    """Of an application that no watcher watches."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read_to_end(self) -> ControlView:
        return view_of(assigned("a b"), instance("a", active(0)), instance("b", standby(0)))

    def listen_for_watcher(self, timeout_s: float) -> bool:
        return False


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[HistoryRecord]:
    """What a drill leaves in the history; it finds the application whole, and gets no further than to its fault."""
    records: list[HistoryRecord] = []

    def note(_cluster: object, _application_id: str, *given: HistoryRecord, **_more: object) -> bool:
        records.extend(given)
        return True

    whole = WaitResult(outcome=Outcome.MET, waited_for="", waited_s=0.0, seen="")
    monkeypatch.setattr(cli_drill, "ControlReader", Reader)
    monkeypatch.setattr(rehearsal, "ControlReader", Reader)
    monkeypatch.setattr(rehearsal, "check_store", lambda *_: None)
    monkeypatch.setattr(rehearsal, "read_history", lambda *_: ())
    monkeypatch.setattr(cli_drill, "wait_for", lambda *_, **__: whole)
    monkeypatch.setattr(cli_drill, "note", note)
    monkeypatch.setattr(rehearsal, "write_history", note)
    monkeypatch.setattr(rehearsal, "publish_by", refuse)
    return records


def refuse(*_: object, **__: object) -> None:
    raise InstanceError("the fault was to be injected")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param(("--kind", "store_lost"), "nothing watches app", id="nothing-watches"),
        pytest.param(("--kind", "store_lost", "--answer"), "the fault was to be injected", id="it-answers-itself"),
        pytest.param(("--kind", "shadow_restore"), "the fault was to be injected", id="nothing-has-to-be-answered"),
    ],
)
def test_failure_that_nothing_would_answer_is_not_made(
    options: tuple[str, ...], reason: str, noted: list[HistoryRecord]
) -> None:
    assert main(["drill", "orders", "--shared-sink", *options]) == ExitStatus.SKIPPED

    (record,) = noted
    assert (record.outcome, str(record.reason).startswith(reason)) == (HistoryOutcome.SKIPPED, True)


def test_store_that_there_is_not_is_refused_before_anything_is_done(
    noted: list[HistoryRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def check(_admin: object, _view: ControlView, store: str) -> None:
        asked.append(store)
        raise ConfigurationError("no such store")

    monkeypatch.setattr(rehearsal, "check_store", check)
    monkeypatch.setattr(cli_drill, "wait_for", lambda *_, **__: pytest.fail("it was waited for"))
    monkeypatch.setattr(rehearsal, "publish_by", lambda *_, **__: pytest.fail("a fault was injected"))

    assert main(["drill", "orders", "--store", "stte", "--answer"]) == ExitStatus.ERROR

    assert (asked, noted) == (["stte"], [])


FAULT = InjectedFault(
    id="drill/1",
    instance="a",
    incarnation=1,
    generation=1,
    tasks=(TaskId(0, 0),),
    source_offsets={TaskId(0, 0): 40},
    injected_at_ms=900,
    kind=DrillKind.STORE_LOST,
)


class Broken:
    """A drill that meets something while it waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: str, what: Callable[[], object]) -> None:
        self.given_standbys = 0

        def wait(_cluster: object, _application_id: str, condition: Condition, _timeout_s: float) -> None:
            if isinstance(condition, FaultTaken) == (at == "fault"):
                what()

        monkeypatch.setattr(rehearsal, "publish_by", lambda *_, **__: FAULT)
        monkeypatch.setattr(cli_drill, "await_condition", wait)
        monkeypatch.setattr("airflow_provider.cli.drill._Drill._answer", lambda *_: None)
        monkeypatch.setattr(cli_drill, "place", self._place)

    def _place(self, *_: object) -> None:
        self.given_standbys += 1


@pytest.fixture
def uncaught() -> Iterator[None]:
    """A signal that the command does not catch fails the test, and ends no test run."""

    def fail(number: int, _: object) -> None:
        raise AssertionError(f"{signal.Signals(number).name} was not caught")

    before = {number: signal.signal(number, fail) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def unreachable() -> None:
    raise BrokerUnreachableError("no answer")


def late() -> None:
    raise DeadlineError("Waited 60 s")


def ended_by(number: signal.Signals) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.usefixtures("uncaught")
@pytest.mark.parametrize(
    ("at", "what", "status", "reason"),
    [
        pytest.param("recovery", ended_by(signal.SIGTERM), ExitStatus.INTERRUPTED, "a signal ended it", id="sigterm"),
        pytest.param("recovery", ended_by(signal.SIGINT), ExitStatus.INTERRUPTED, "a signal ended it", id="ctrl-c"),
        pytest.param("recovery", unreachable, ExitStatus.ERROR, "BrokerUnreachableError: no answer", id="no-broker"),
        pytest.param("fault", late, ExitStatus.ERROR, "DeadlineError: Waited 60 s", id="fault-is-not-taken"),
    ],
)
def test_drill_that_is_broken_off_after_its_fault_is_noted_as_failed_and_gives_standbys(
    at: str,
    what: Callable[[], object],
    status: ExitStatus,
    reason: str,
    noted: list[HistoryRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = Broken(monkeypatch, at, what)

    assert main(["drill", "orders", "--shared-sink", "--answer"]) == status

    assert (noted[-1].id, noted[-1].outcome) == (FAULT.id, HistoryOutcome.FAILED)
    assert noted[-1].reason == f"It was not judged: {reason}"
    assert noted[-1].ended_at_ms is not None
    assert broken.given_standbys == 1


def test_drill_that_its_instance_refuses_ends_the_record_that_its_fault_left_open(
    noted: list[HistoryRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def publish(_: object, __: str, act: Callable[[object], InjectedFault], **___: bool) -> InjectedFault:
        return act(SimpleNamespace())

    def inject(_publisher: object, fault_id: str, *_: object, **more: str) -> InjectedFault:
        asked.extend((fault_id, more["by"]))
        return dataclasses.replace(FAULT, id=fault_id)

    Broken(monkeypatch, "fault", refuse)
    monkeypatch.setattr(rehearsal, "publish_by", publish)
    monkeypatch.setattr(rehearsal, "inject_fault", inject)

    assert main(["drill", "orders", "--shared-sink", "--answer"]) == ExitStatus.SKIPPED

    (record,) = noted
    assert [record.id, record.by] == asked
    assert (record.outcome, record.ended_at_ms is not None) == (HistoryOutcome.SKIPPED, True)


def test_blackout_that_cannot_be_read_is_a_wrong_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["drill", "orders", "--blackout", "monday"])

    assert ended.value.code == 2
    assert "Found the blackout 'monday', expected days, hours and a time zone" in capsys.readouterr().err


def test_reason_names_the_limit_that_was_given_or_that_waiting_does_not_help() -> None:
    def waited(outcome: Outcome) -> WaitResult:
        return WaitResult(outcome=outcome, waited_for="x", waited_s=4.5, seen="task 0_0 is restoring")

    assert not_whole(waited(Outcome.MET), 10.0) is None
    assert not_whole(waited(Outcome.WAITING), 10.0) == (
        "it is not whole after 10 s (--ready-timeout): task 0_0 is restoring"
    )
    assert not_whole(waited(Outcome.FAILED), 10.0) == (
        "it is not whole, and does not become so by itself: task 0_0 is restoring"
    )
