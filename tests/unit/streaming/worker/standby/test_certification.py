from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider.control.records.status import FailureStatus, TaskStatus
from airflow_provider.errors import StoreDivergedError
from airflow_provider.streaming.worker.standby.standby_duties import Certification, Finding, finding
from airflow_provider.streaming.worker.tasks.task import Task
from tests.builders import standby


@pytest.mark.parametrize(
    ("found", "restored", "what"),
    [
        pytest.param(7, False, Finding.CERTIFIED, id="equal"),
        pytest.param(7, True, Finding.CERTIFIED, id="equal-after-a-restore"),
        pytest.param(8, False, Finding.DIVERGED, id="unequal"),
        pytest.param(8, True, Finding.ACTIVE_SUSPECT, id="unequal-though-restored"),
    ],
)
def test_finding(found: int, restored: bool, what: Finding) -> None:
    assert finding(7, found, restored) is what


class FakeScan:
    """Done once it is given what it found."""

    found: int | None = None
    done = False

    def result(self) -> int | None:
        return self.found

    def cancel(self) -> None:
        self.done = True

    def finds(self, found: int | None) -> None:
        self.found, self.done = found, True


class FakeStandby:
    """At the end of its changelog, at offset 10, where the active had the digest 7."""

    partition, changelog = 3, "app-state-changelog"
    settings = SimpleNamespace(instance="i2")

    @property
    def replica(self) -> FakeStandby:
        return self

    def __init__(self) -> None:
        self.scans: list[FakeScan] = []
        self.digest: str | None = f"{7:016x}"
        self.reached_end = True
        self.position: Any = SimpleNamespace(offset=10)

    def scan(self) -> FakeScan:
        self.scans.append(FakeScan())
        return self.scans[-1]


@pytest.fixture
def task() -> FakeStandby:
    return FakeStandby()


@pytest.fixture
def tick(task: FakeStandby, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Certification]:
    """Minds it at a second, every 600 s a comparison."""
    certified = Certification()

    def at(
        second: float, may_begin: bool = True, asked_by: str | None = None, interval_s: float | None = 600.0
    ) -> Certification:
        monkeypatch.setattr(time, "monotonic", lambda: second)
        certified.tick(cast(Task, task), interval_s, may_begin, asked_by)
        return certified

    return at


def reported(by: Certification) -> TaskStatus:
    return by.with_certification_status(standby(3))


def test_equal_store_is_certified_at_the_position_it_was_compared_at(
    task: FakeStandby, tick: Callable[..., Certification]
) -> None:
    assert reported(tick(1.0)).certificate.position is None
    task.position.offset = 99
    task.scans[0].finds(7)

    status = reported(tick(2.0))

    assert (status.certificate.position, status.certificate.divergences, status.error) == (10, 0, None)
    assert status.certificate.at_ms is not None


def test_store_is_compared_again_after_the_interval_and_not_before(
    task: FakeStandby, tick: Callable[..., Certification]
) -> None:
    tick(1.0)
    task.scans[0].finds(7)
    for second in (2.0, 300.0, 600.0):
        tick(second)
    assert len(task.scans) == 1

    tick(601.0)

    assert len(task.scans) == 2


@pytest.mark.parametrize("why", ["not-at-the-end", "digest-not-known", "empty", "another-is-compared"])
def test_no_comparison_begins_when(why: str, task: FakeStandby, tick: Callable[..., Certification]) -> None:
    task.reached_end = why != "not-at-the-end"
    if why == "digest-not-known":
        task.digest = None
    if why == "empty":
        task.position = None

    tick(1.0, may_begin=why != "another-is-compared")

    assert task.scans == []


def test_store_that_differs_is_to_be_moved_aside(task: FakeStandby, tick: Callable[..., Certification]) -> None:
    by = tick(1.0)
    task.scans[0].finds(8)

    with pytest.raises(StoreDivergedError, match=r"position 10 .*'i2'.*0+8, its active had 0+7"):
        tick(2.0)

    status = reported(by)
    assert (status.certificate.divergences, status.certificate.position, status.error) == (1, None, None)


def test_restored_store_that_differs_still_lays_suspicion_on_the_active_until_it_is_equal(
    task: FakeStandby, tick: Callable[..., Certification]
) -> None:
    tick(1.0)
    task.scans[0].finds(8)
    with pytest.raises(StoreDivergedError):
        tick(2.0)
    by = tick(3.0)  # at once, the interval is not waited for
    task.scans[1].finds(8)

    tick(4.0)

    status = reported(by)
    assert status.error_kind == "StoreDivergedError"
    assert "either the active's store is damaged, or the changelog" in str(status.error)
    assert status.certificate.divergences == 2
    tick(700.0)
    task.scans[2].finds(7)
    tick(701.0)
    assert (reported(by).error, reported(by).certificate.position) == (None, 10)


def test_promoted_standby_says_whether_the_digest_was_found_wrong(
    task: FakeStandby, tick: Callable[..., Certification]
) -> None:
    by = tick(1.0)
    assert by.leave() is False
    assert task.scans[0].done
    tick(700.0)
    task.scans[1].finds(8)
    with pytest.raises(StoreDivergedError):
        tick(701.0)
    tick(702.0)
    task.scans[2].finds(8)
    tick(703.0)

    assert by.leave() is True
    assert by.leave() is False


def test_comparison_whose_store_was_opened_anew_begins_again(
    task: FakeStandby, tick: Callable[..., Certification]
) -> None:
    tick(1.0)
    task.scans[0].finds(None)
    tick(2.0)

    tick(3.0)

    assert len(task.scans) == 2


def test_store_is_compared_when_it_is_asked_for_and_once_for_each_command(
    task: FakeStandby, tick: Callable[..., Certification]
) -> None:
    tick(1.0)
    task.scans[0].finds(7)
    by = tick(2.0)
    assert reported(by).certificate.command is None

    tick(3.0, asked_by="c1")
    assert reported(by).certificate.command is None
    task.scans[1].finds(7)
    tick(4.0, asked_by="c1")
    tick(5.0, asked_by="c1")

    assert len(task.scans) == 2
    assert reported(by).certificate.command == "c1"
    tick(6.0, asked_by="c2")
    assert len(task.scans) == 3


def test_comparison_that_was_under_way_does_not_answer_a_command(
    task: FakeStandby, tick: Callable[..., Certification]
) -> None:
    tick(1.0)
    by = tick(2.0, asked_by="c1")
    task.scans[0].finds(7)
    tick(3.0, asked_by="c1")
    assert reported(by).certificate.command is None

    tick(4.0, asked_by="c1")
    task.scans[1].finds(8)
    with pytest.raises(StoreDivergedError):
        tick(5.0, asked_by="c1")

    assert (reported(by).certificate.command, reported(by).certificate.divergences) == ("c1", 1)


def test_command_is_not_forgotten_with_a_store_that_is_closed(
    task: FakeStandby, tick: Callable[..., Certification]
) -> None:
    tick(1.0, asked_by="c1").leave()
    tick(2.0, asked_by="c1")
    task.scans[1].finds(None)
    tick(3.0, asked_by="c1")

    tick(4.0, asked_by="c1")

    assert len(task.scans) == 3


def test_job_without_an_interval_compares_only_what_is_asked_for(
    task: FakeStandby, tick: Callable[..., Certification]
) -> None:
    tick(1.0, interval_s=None)
    assert task.scans == []

    tick(2.0, interval_s=None, asked_by="c1")
    task.scans[0].finds(7)
    by = tick(3.0, interval_s=None, asked_by="c1")
    tick(4.0, interval_s=None, asked_by="c1")

    assert (len(task.scans), reported(by).certificate.position) == (1, 10)


def test_error_of_another_kind_is_reported_first(task: FakeStandby, tick: Callable[..., Certification]) -> None:
    by = tick(1.0)
    task.scans[0].finds(7)
    tick(2.0)
    troubled = dataclasses.replace(standby(3), failure=FailureStatus("StateError", "disk full"))

    assert by.with_certification_status(troubled).error_kind == "StateError"
