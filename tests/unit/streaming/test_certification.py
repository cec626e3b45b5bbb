from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider.control.status import TaskStatus
from airflow_provider.errors import StoreDivergedError
from airflow_provider.streaming.certification import Certification, Finding, finding
from airflow_provider.streaming.task import Task
from tests.builders import active, standby


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
    """Done when told what it found."""

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

    number, changelog = 3, "app-state-changelog"
    settings = SimpleNamespace(instance="i2")

    def __init__(self) -> None:
        self.scans: list[FakeScan] = []
        self.commit_record: Any = SimpleNamespace(digest=f"{7:016x}")
        self.replica = SimpleNamespace(
            reached_end=True, store=SimpleNamespace(position=SimpleNamespace(offset=10), scan=self.scan)
        )

    def scan(self) -> FakeScan:
        self.scans.append(FakeScan())
        return self.scans[-1]


@pytest.fixture
def task() -> FakeStandby:
    return FakeStandby()


@pytest.fixture
def mind(task: FakeStandby, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Certification]:
    """Minds it at a second, every 600 s a comparison."""
    certified = Certification()

    def at(second: float, may_begin: bool = True) -> Certification:
        monkeypatch.setattr("airflow_provider.streaming.certification.time.monotonic", lambda: second)
        certified.mind(cast(Task, task), 600.0, may_begin)
        return certified

    return at


def told(by: Certification) -> TaskStatus:
    return by.told(standby(3))


def test_equal_store_is_certified_at_the_position_it_was_compared_at(
    task: FakeStandby, mind: Callable[..., Certification]
) -> None:
    assert told(mind(1.0)).certified_position is None
    task.replica.store.position.offset = 99
    task.scans[0].finds(7)

    status = told(mind(2.0))

    assert (status.certified_position, status.divergences, status.error) == (10, 0, None)
    assert status.certified_at_ms is not None


def test_store_is_compared_again_after_the_interval_and_not_before(
    task: FakeStandby, mind: Callable[..., Certification]
) -> None:
    mind(1.0)
    task.scans[0].finds(7)
    for second in (2.0, 300.0, 600.0):
        mind(second)
    assert len(task.scans) == 1

    mind(601.0)

    assert len(task.scans) == 2


@pytest.mark.parametrize("why", ["not-at-the-end", "digest-not-known", "no-commit", "another-is-compared"])
def test_no_comparison_begins_when(why: str, task: FakeStandby, mind: Callable[..., Certification]) -> None:
    task.replica.reached_end = why != "not-at-the-end"
    if why == "digest-not-known":
        task.commit_record.digest = None
    if why == "no-commit":
        task.commit_record = None

    mind(1.0, may_begin=why != "another-is-compared")

    assert task.scans == []


def test_store_that_differs_is_to_be_moved_aside(task: FakeStandby, mind: Callable[..., Certification]) -> None:
    by = mind(1.0)
    task.scans[0].finds(8)

    with pytest.raises(StoreDivergedError, match=r"position 10 .*'i2'.*0+8, its active had 0+7"):
        mind(2.0)

    assert (told(by).divergences, told(by).certified_position, told(by).error) == (1, None, None)


def test_restored_store_that_differs_still_lays_suspicion_on_the_active_until_it_is_equal(
    task: FakeStandby, mind: Callable[..., Certification]
) -> None:
    mind(1.0)
    task.scans[0].finds(8)
    with pytest.raises(StoreDivergedError):
        mind(2.0)
    by = mind(3.0)  # at once, the interval is not waited for
    task.scans[1].finds(8)

    mind(4.0)

    status = told(by)
    assert status.error_kind == "StoreDivergedError"
    assert "the active's store is the suspect" in str(status.error)
    assert status.divergences == 2
    mind(700.0)
    task.scans[2].finds(7)
    mind(701.0)
    assert (told(by).error, told(by).certified_position) == (None, 10)


def test_promoted_standby_says_whether_the_digest_was_found_wrong(
    task: FakeStandby, mind: Callable[..., Certification]
) -> None:
    by = mind(1.0)
    assert by.leave() is False
    assert task.scans[0].done
    mind(700.0)
    task.scans[1].finds(8)
    with pytest.raises(StoreDivergedError):
        mind(701.0)
    mind(702.0)
    task.scans[2].finds(8)
    mind(703.0)

    assert by.leave() is True
    assert by.leave() is False


def test_comparison_whose_store_was_opened_anew_begins_again(
    task: FakeStandby, mind: Callable[..., Certification]
) -> None:
    mind(1.0)
    task.scans[0].finds(None)
    mind(2.0)

    mind(3.0)

    assert len(task.scans) == 2


def test_trouble_of_another_kind_is_told_first_and_an_active_is_never_certified(
    task: FakeStandby, mind: Callable[..., Certification]
) -> None:
    by = mind(1.0)
    task.scans[0].finds(7)
    mind(2.0)
    troubled = dataclasses.replace(standby(3), error="disk full", error_kind="StateError")

    assert by.told(troubled).error_kind == "StateError"
    assert by.told(active(3)) == active(3)
