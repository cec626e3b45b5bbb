"""A byte that a broker's disk flipped in a changelog is neither state nor a reason to distrust a store."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path

from airflow_provider.control.records.task_state import TaskState
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.streaming.worker.slot import Slot
from tests.integration.streaming.application import Application, active, standby, the_only
from tests.integration.streaming.committed import newest_by_key, records_of
from tests.integration.streaming.orders import batches_of, random_orders, record_batches
from tests.waiting import wait_until

BATCHES = batches_of(random_orders(seed=5, number=160, customers=100), 40)
"""Of so many customers that some keys of the first batch never change again."""


def flip_a_living_value(broker: EmbeddedBroker, changelog: str) -> None:
    """Change one bit of a value that no later record replaces, on the disk of the broker."""
    records = records_of(broker.bootstrap_servers, changelog)
    newest = newest_by_key(records)
    value = next(r.value for r in records if r.value is not None and newest.get(r.key) == r.value)
    (log,) = Path(broker.folder.data).rglob(f"{changelog}-0/00000000000000000000.log")
    raw = log.read_bytes()
    assert raw.count(value) == 1
    at = raw.index(value) + len(value) - 1
    with log.open("r+b") as file:
        file.seek(at)
        file.write(bytes([raw[at] ^ 1]))


def test_flipped_byte_of_a_changelog_is_never_restored_as_state(
    broker: EmbeddedBroker, application: Application
) -> None:
    i1, i2 = application.instance("i1"), application.instance("i2")
    with closing(Slot(i1.plan(active(0)))) as slot:
        slot.call(i1.plan(active(0)), (), False)
        for rows in BATCHES[:3]:
            slot.call(i1.plan(active(0)), record_batches((0, rows)), False)
    application.settle()
    flip_a_living_value(broker, application.changelog)

    plan = i2.plan(active(0, generation=2), budget_s=2.0)
    with closing(Slot(plan)) as slot:
        for batches in ([], record_batches((0, BATCHES[3]))):
            status = the_only(slot.call(plan, batches, False))

            assert status.error_kind == "TopicDamagedError"
            assert f"Offset 0 of {application.changelog}[0] is damaged" in str(status.error)
            assert status.state is not TaskState.RUNNING
    assert not i2.quarantined

    plan = i1.plan(active(0, generation=3))
    with closing(Slot(plan)) as slot:
        assert the_only(slot.call(plan, (), False)).state is TaskState.RUNNING, "it has read past that"


def test_standby_says_where_its_changelog_is_damaged_and_blames_no_store(
    broker: EmbeddedBroker, application: Application
) -> None:
    often = dataclasses.replace(application, spec=dataclasses.replace(application.spec, certify_interval_s=0.05))
    i1, i2 = often.instance("i1"), often.instance("i2")
    plan, following = i1.plan(active(0)), i2.plan(standby(0), budget_s=0.2)
    with closing(Slot(plan)) as owner, closing(Slot(following)) as follower:
        owner.call(plan, (), False)
        for rows in BATCHES[:3]:
            owner.call(plan, record_batches((0, rows)), False)
        application.settle()
        flip_a_living_value(broker, application.changelog)

        def said() -> bool:
            return the_only(follower.call(following, (), False)).error_kind == "TopicDamagedError"

        wait_until(said, 60, "the standby to say so")

        assert said(), "as long as it is so"
        status = the_only(owner.call(plan, record_batches((0, BATCHES[3])), False))
        assert (status.state, status.error) == (TaskState.RUNNING, None)
    assert not i2.quarantined
