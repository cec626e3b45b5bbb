"""A key that was deleted stays deleted: through a restore, a compaction, and a store that slept."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider.streaming.json.user_values import encode_state
from airflow_provider.streaming.operations.process import Process
from airflow_provider.streaming.worker.slot import Slot
from tests.integration.streaming.application import Application, active, json_state, standby, the_only, with_store
from tests.integration.streaming.committed import Record, newest_by_key, records_of
from tests.integration.streaming.orders import Order, forget_on_zero, record_batches
from tests.waiting import wait_until

# The cleaner leaves the newest segment alone, so a segment ends soon.
EAGER = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "0"}
NO_TOMBSTONES = {**EAGER, "delete.retention.ms": "0"}


class Writer:
    """An owner that writes one order after the other."""

    def __init__(self, application: Application) -> None:
        self.plan = application.instance("writer").plan(active(0))
        self.slot = Slot(self.plan)
        self.slot.call(self.plan, (), False)
        self._offsets = itertools.count()

    def write(self, *orders: tuple[str, int]) -> None:
        rows = [Order(next(self._offsets), customer, amount) for customer, amount in orders]
        self.slot.call(self.plan, record_batches((0, rows)), False)


@pytest.fixture
def create(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Callable[[dict[str, str]], Application]:
    operation = Process(forget_on_zero, ("amount",))

    def create(config: dict[str, str]) -> Application:
        return Application.create(bootstrap_servers, application_id, tmp_path, operation, changelog_config=config)

    return create


def left_of(application: Application, key: bytes) -> list[bytes | None]:
    found = records_of(application.connection.bootstrap_servers, application.changelog)
    return [record.value for record in found if record.key == key]


def wait_for_compaction(application: Application, writer: Writer, left: list[bytes | None]) -> None:
    filler = itertools.count()

    def compacted() -> bool:
        writer.write(("filler", next(filler) + 1))  # ends a segment
        return left_of(application, b"gone") == left

    wait_until(compacted, 60, f"the deleted key's records to be {left}", poll_s=0.2)


def test_deleted_key_stays_deleted_through_a_restore(create: Callable[[dict[str, str]], Application]) -> None:
    application = create({})
    writer = Writer(application)
    with closing(writer.slot):
        writer.write(("gone", 5), ("kept", 6))
        writer.write(("gone", 0), ("never-was", 0))
        application.settle()
    restored = application.instance("other")
    with closing(Slot(restored.plan(standby(0)))) as slot:
        slot.call(restored.plan(standby(0)), (), False)

    assert left_of(application, b"gone") == [encode_state(5), None]
    assert left_of(application, b"never-was") == [], "nothing to delete, nothing to write"
    assert json_state(restored.stored()) == {"kept": 6}
    assert json_state(application.instance("writer").stored()) == {"kept": 6}


@pytest.mark.parametrize(
    ("config", "left"),
    [pytest.param(EAGER, [None], id="tombstone-kept"), pytest.param(NO_TOMBSTONES, [], id="tombstone-gone")],
)
def test_deleted_key_stays_deleted_through_a_compaction(
    config: dict[str, str], left: list[bytes | None], create: Callable[[dict[str, str]], Application]
) -> None:
    application = create(config)
    writer = Writer(application)
    with closing(writer.slot):
        writer.write(("gone", 5), ("kept", 6))
        writer.write(("gone", 0))
        wait_for_compaction(application, writer, left)
    restored = application.instance("other")
    with closing(Slot(restored.plan(active(0, 2)))) as slot:
        owned = the_only(slot.call(restored.plan(active(0, 2)), (), False))

    # The commit record outlives every compaction.
    changelog: list[Record] = records_of(application.connection.bootstrap_servers, application.changelog)
    assert restored.stored() == newest_by_key(changelog)
    assert set(json_state(restored.stored())) == {"kept", "filler"}
    assert owned.source_offset is not None


@pytest.fixture
def asleep(create: Callable[[dict[str, str]], Application]) -> Iterator[Application]:
    """A standby of instance ``asleep`` knew the key before it was deleted, and its deletion is gone from the log."""
    application = create(NO_TOMBSTONES)
    sleeper = application.instance("asleep")
    writer = Writer(application)
    with closing(writer.slot):
        writer.write(("gone", 5), ("kept", 6))
        application.settle()
        with closing(Slot(sleeper.plan(standby(0)))) as slot:
            slot.call(sleeper.plan(standby(0)), (), False)
        writer.write(("gone", 0))
        wait_for_compaction(application, writer, [])
        yield application


@pytest.mark.parametrize("task", [standby(0), active(0, 2)], ids=["standby", "active"])
def test_store_that_slept_longer_than_deletions_are_kept_does_not_bring_a_key_back(
    task: object, asleep: Application
) -> None:
    spec = with_store(asleep.spec, delete_retention_ms=0)
    plans = dataclasses.replace(asleep, spec=spec).instance("asleep")
    plan = plans.plan(task)  # type: ignore[arg-type]
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)

    assert set(json_state(plans.stored())) == {"kept", "filler"}
    assert len(plans.quarantined) == 1
