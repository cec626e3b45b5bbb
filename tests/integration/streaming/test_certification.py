"""A standby whose store does not hold what the active's does is found, moved aside and restored; the active goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.state.digest import digest_of
from airflow_provider.state.store import Store
from airflow_provider.streaming.worker.slot import Slot
from tests.integration.streaming.application import Application, InstancePlans, active, standby, the_only
from tests.integration.streaming.committed import commits, ends_of, newest_by_key, records_of
from tests.integration.streaming.orders import batches_of, random_orders, record_batches
from tests.waiting import wait_until

BATCHES = batches_of(random_orders(seed=21, number=160), 20)


@dataclass
class Pair:
    """An active and a standby, driven call by call."""

    application: Application
    active: Slot
    active_plans: InstancePlans
    standby_plans: InstancePlans
    stack: ExitStack
    sent: int = 0

    def process(self) -> TaskStatus:
        plan = self.active_plans.plan(active(0))
        status = the_only(self.active.call(plan, record_batches((0, BATCHES[self.sent])), False))
        self.sent += 1
        self.application.settle()
        return status

    def open_standby(self) -> Slot:
        return self.stack.enter_context(closing(Slot(self.standby_plans.plan(standby(0)))))

    def follow(self, slot: Slot) -> TaskStatus:
        return the_only(slot.call(self.standby_plans.plan(standby(0), budget_s=0.0), (), False))

    def follow_until(self, slot: Slot, is_so: Callable[[TaskStatus], bool], what: str) -> list[TaskStatus]:
        """Rounds until the standby's status is so; all that was reported."""
        reported: list[TaskStatus] = []

        def look() -> bool:
            reported.append(self.follow(slot))
            return is_so(reported[-1])

        wait_until(look, 30, what)
        return reported

    def settled_end(self) -> int:
        return ends_of(self.application.connection.bootstrap_servers, self.application.changelog)[0]

    def truth(self) -> dict[bytes, bytes]:
        return newest_by_key(records_of(self.application.connection.bootstrap_servers, self.application.changelog))

    def committed_digests(self) -> list[str | None]:
        records = records_of(self.application.connection.bootstrap_servers, self.application.changelog)
        return [commit["digests"].get("state") for commit in commits(records, 0)]


@pytest.fixture
def pair(application: Application) -> Iterator[Pair]:
    often = dataclasses.replace(application, spec=dataclasses.replace(application.spec, certify_interval_s=0.05))
    with ExitStack() as stack:
        ours, theirs = often.instance("i1"), often.instance("i2")
        slot = stack.enter_context(closing(Slot(ours.plan(active(0)))))
        slot.call(ours.plan(active(0)), (), False)
        yield Pair(often, slot, ours, theirs, stack)


def flip(plans: InstancePlans) -> None:
    """Another value for one key, at the position as it is."""
    store = Store(plans.directory.database(TaskId(0, 0)), ["state"], plans.spec.store.kind.rocksdb)
    key, value = next(store.items("state"))
    assert store.position is not None
    # The lowest bits of a sum: it still reads as the operation's state.
    store.write({"state": [(key, value[:-1] + bytes([value[-1] ^ 1]))]}, store.position)
    store.close()


def certified(status: TaskStatus) -> bool:
    return status.certificate.position is not None and status.certificate.position == status.position


def test_standby_is_certified_at_the_position_of_its_active(pair: Pair) -> None:
    slot = pair.open_standby()
    pair.process()
    first = pair.follow_until(slot, certified, "the first certificate")[-1]
    pair.process()

    reported = pair.follow_until(
        slot, lambda s: certified(s) and s.position != first.position, "a certificate at the new position"
    )

    status = reported[-1]

    assert (status.error, status.certificate.divergences) == (None, 0)
    truth = pair.truth()
    assert pair.committed_digests()[-1] == f"{digest_of(truth.keys(), truth.values()):016x}"


def test_standby_is_compared_again_when_its_plan_asks_for_it(application: Application) -> None:
    never = dataclasses.replace(application, spec=dataclasses.replace(application.spec, certify_interval_s=None))
    with ExitStack() as stack:
        ours, theirs = never.instance("i1"), never.instance("i2")
        slot = stack.enter_context(closing(Slot(ours.plan(active(0)))))
        slot.call(ours.plan(active(0)), (), False)
        pair = Pair(never, slot, ours, theirs, stack)
        pair.process()
        follower = pair.open_standby()
        assert pair.follow_until(follower, lambda s: s.lag_records == 0, "the end")[-1].certificate.position is None

        asked = dataclasses.replace(standby(0), certify="c1")

        def answered() -> TaskStatus | None:
            status = the_only(follower.call(theirs.plan(asked, budget_s=0.0), (), False))
            return status if status.certificate.command == "c1" else None

        status = wait_until(answered, 30, "the comparison")
        assert status is not None
        assert certified(status)


def test_flipped_value_is_found_and_its_store_moved_aside_and_restored_while_the_active_goes_on(pair: Pair) -> None:
    pair.process()
    with closing(pair.open_standby()) as slot:
        pair.follow_until(slot, certified, "the first certificate")
    flip(pair.standby_plans)

    slot = pair.open_standby()
    reported = pair.follow_until(slot, lambda s: s.certificate.divergences == 1, "the divergence")
    assert reported[-1].error_kind == "StoreDivergedError"
    assert reported[-1].certificate.position is None
    status = pair.process()
    assert (status.state, status.error) == (TaskState.RUNNING, None)
    reported = pair.follow_until(slot, certified, "the certificate of the restored store")

    assert all(s.error is None for s in reported)
    assert reported[-1].certificate.divergences == 1
    assert len(pair.standby_plans.quarantined) == 1
    assert pair.active_plans.quarantined == []
    slot.close()
    assert pair.standby_plans.stored() == pair.truth()


def test_flipped_value_of_the_active_makes_it_the_suspect_until_a_standby_is_promoted(pair: Pair) -> None:
    pair.process()
    pair.active.close()
    flip(pair.active_plans)
    pair.active = pair.stack.enter_context(closing(Slot(pair.active_plans.plan(active(0)))))
    pair.active.call(pair.active_plans.plan(active(0)), (), False)
    # The flipped key comes again, and its old value's hash is taken from a digest that never held it.
    while pair.sent < 4:
        pair.process()
    slot = pair.open_standby()

    reported = pair.follow_until(slot, lambda s: s.error is not None and s.certificate.divergences > 1, "the suspicion")
    status = reported[-1]

    assert "either the active's store is damaged, or the changelog" in str(status.error)
    assert status.lag_records == 0
    assert len(pair.standby_plans.quarantined) == 1
    assert pair.process().state is TaskState.RUNNING

    promoted = pair.standby_plans.plan(active(0, 2))
    slot.call(promoted, (), False)
    demoted = pair.active_plans.plan(standby(0, 2), budget_s=0.0)

    def former() -> TaskStatus:
        return the_only(pair.active.call(demoted, (), False))

    for batch in BATCHES[pair.sent :]:
        slot.call(promoted, record_batches((0, batch)), False)
    pair.application.settle()
    end = pair.settled_end()
    wait_until(lambda: former().certificate.position == end, 30, "a certificate by the new active's digest")


def test_digest_is_known_again_after_an_owner_that_knew_none(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as old_version:
        old_version.setattr(
            "airflow_provider.streaming.worker.tasks.task_committer.RunningDigest.after", lambda *_: None
        )
        pair.process()
    pair.active.close()
    slot = pair.open_standby()
    pair.follow_until(slot, lambda s: s.lag_records == 0, "the end of the changelog")
    assert pair.follow(slot).certificate.position is None
    pair.active = pair.stack.enter_context(closing(Slot(pair.active_plans.plan(active(0, 2)))))
    pair.active.call(pair.active_plans.plan(active(0, 2)), (), False)

    def digest() -> str | None:
        pair.process()
        return pair.committed_digests()[-1]

    wait_until(digest, 30, "a digest in a commit record")

    pair.follow_until(slot, certified, "a certificate")

    assert pair.committed_digests()[0] is None
