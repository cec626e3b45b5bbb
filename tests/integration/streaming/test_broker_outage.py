"""Brokers that restart, stand still, or answer too late: whatever became of a commit, each record counts once."""

from __future__ import annotations

import dataclasses
import functools
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.changelog.writer import TransactionalWriter
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.errors import BrokerUnreachableError, TopicMissingError
from airflow_provider.failpoint import FailPoints
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicDescription, TopicSpec, changelog_spec
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.streaming.driver.watches.topic_verification import TopicWatch
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import SlotPlan
from tests.integration.streaming.application import Application, active, standby, the_only
from tests.integration.streaming.committed import ends_of, newest_by_key, records_of, wait_for_markers
from tests.integration.streaming.orders import Order, batches_of, expected_outputs, random_orders, record_batches
from tests.integration.streaming.test_ownership import sink_of
from tests.kafka_proxy import END_TXN, KafkaProxy, broker_behind
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("broker-outage")]

OUTAGE_S = 30.0


@pytest.fixture(scope="module")
def proxy() -> Iterator[KafkaProxy]:
    with KafkaProxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def broker(proxy: KafkaProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker of these tests' own, which clients reach through the proxy alone."""
    with broker_behind(proxy, tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def bootstrap_servers(broker: EmbeddedBroker, proxy: KafkaProxy) -> Iterator[str]:
    proxy.reopen()
    yield f"127.0.0.1:{proxy.port}"
    proxy.reopen()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that is not answered is given up after seconds."""
    writer = functools.partial(TransactionalWriter, timeout_s=2.0)
    monkeypatch.setattr("airflow_provider.streaming.worker.tasks.kafka_clients.TransactionalWriter", writer)


def process(slot: Slot, plan: SlotPlan, orders: list[Order], deadline_s: float = 90.0) -> TaskStatus:
    """As the driver does: a round after every trouble, then the rows from where the task stands."""
    batches: list[list[Order]] = []
    reported: TaskStatus | None = None

    def done() -> bool:
        nonlocal batches, reported
        try:
            if not batches:
                reported = the_only(slot.call(plan, (), False))
                if reported.state is not TaskState.RUNNING:
                    return False
                batches = batches_of([o for o in orders if o.offset >= (reported.source_offset or 0)], 40)
            if batches:
                reported = the_only(slot.call(plan, record_batches((0, batches.pop(0))), False))
                if reported.state is not TaskState.RUNNING:
                    batches = []
        except (BrokerUnreachableError, TopicMissingError):  # a broker that has just started may not know every topic
            batches = []
        return reported is not None and reported.source_offset == orders[-1].offset + 1

    wait_until(done, deadline_s, "all rows to be processed")
    assert reported is not None
    return reported


def check(application: Application, orders: list[Order]) -> None:
    application.settle()
    assert sink_of(application) == expected_outputs(orders)
    stored = newest_by_key(records_of(application.connection.bootstrap_servers, application.changelog))
    for name in ("i1", "i2"):
        plans = application.instance(name)
        if plans.directory.path.exists():
            assert plans.stored() == stored, name


@pytest.mark.parametrize("reaches_broker", [True, False], ids=["was-committed", "was-not-committed"])
def test_commit_of_unknown_outcome_is_found_out_from_the_changelog(
    reaches_broker: bool, application: Application, proxy: KafkaProxy, impatient: None
) -> None:
    orders = random_orders(seed=41, number=160)
    first, second, *_ = batches_of(orders, 40)
    plan = application.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, first)), False)
        proxy.trap(END_TXN, reaches_broker)
        with pytest.raises(BrokerUnreachableError):
            slot.call(plan, record_batches((0, second)), False)
        assert proxy.sprung.is_set()
        proxy.reopen()

        def owned() -> TaskStatus | None:
            status = the_only(slot.call(plan, (), False))
            return status if status.state is TaskState.RUNNING else None

        status = wait_until(owned, 60, "the task to be owned again")
        assert status is not None
        assert status.source_offset == (second if reaches_broker else first)[-1].offset + 1
        process(slot, plan, orders)
    check(application, orders)


def test_transaction_that_timed_out_is_repeated(
    application: Application, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = dataclasses.replace(application.spec, transaction_timeout_ms=1_000)
    application = dataclasses.replace(application, spec=spec)
    orders = random_orders(seed=43, number=120)
    plan = application.instance("i1").plan(active(0))
    timed_out: list[str] = []

    def stall(self: FailPoints, name: str) -> None:
        """Once, with all records sent, until the brokers have aborted the transaction."""
        if name != "commit.offsets" or timed_out:
            return
        begun = ends_of(bootstrap_servers, application.changelog, "read_committed")
        wait_until(lambda: ends_of(bootstrap_servers, application.changelog) != begun, 30, "the records to be stored")
        wait_for_markers(bootstrap_servers, application.changelog)
        timed_out.append(name)

    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, orders[:40])), False)
        application.settle()
        monkeypatch.setattr("airflow_provider.failpoint.FailPoints.hit", stall)
        process(slot, plan, orders)
    assert timed_out
    check(application, orders)


@pytest.mark.parametrize("end", [EmbeddedBroker.stop, EmbeddedBroker.kill], ids=["stopped", "killed"])
def test_restarted_broker_loses_and_doubles_nothing(
    end: Callable[[EmbeddedBroker], None], application: Application, broker: EmbeddedBroker, impatient: None
) -> None:
    orders = random_orders(seed=47, number=400)
    owner, follower = application.instance("i1"), application.instance("i2")
    plan, behind = owner.plan(active(0)), follower.plan(standby(0))
    with closing(Slot(plan)) as slot, closing(Slot(behind)) as warm:
        process(slot, plan, orders[:80])
        warm.call(behind, (), False)

        def restart() -> None:
            end(broker)
            broker.start()

        restarting = threading.Thread(target=restart)
        restarting.start()
        process(slot, plan, orders)
        restarting.join()
        application.settle()

        def followed() -> bool:
            status = the_only(warm.call(behind, (), False))
            return status.error is None and status.source_offset == orders[-1].offset + 1

        wait_until(followed, 60, "the standby to follow")
    check(application, orders)


def test_broker_that_stands_still_for_half_a_minute_loses_and_doubles_nothing(
    application: Application, broker: EmbeddedBroker
) -> None:
    orders = random_orders(seed=53, number=400)
    plan = application.instance("i1").plan(active(0))
    tenant = broker.folder.living_tenant()
    assert tenant is not None
    with closing(Slot(plan)) as slot:
        process(slot, plan, orders[:80])
        tenant.leader.signal_group(signal.SIGSTOP)
        waking = threading.Timer(OUTAGE_S, tenant.leader.signal_group, [signal.SIGCONT])
        waking.start()
        try:
            stood_still_s = time.monotonic()
            process(slot, plan, orders)
            assert time.monotonic() - stood_still_s >= OUTAGE_S - 1, "nothing stood still"
        finally:
            waking.join()
    check(application, orders)


class CountingAdmin(TopicAdmin):
    """Counts how often it was asked in vain."""

    in_vain = 0

    def verify(self, specs: Iterable[TopicSpec]) -> Mapping[str, TopicDescription]:
        try:
            return super().verify(specs)
        except BrokerUnreachableError:
            self.in_vain += 1
            raise


class ForgetfulProducer:
    """Its second commit is acknowledged and lost, as by Kafka 4.3 where the partitions have no leader."""

    commits = 0

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def __len__(self) -> int:
        return len(self._producer)

    def commit_transaction(self, timeout_s: float) -> None:
        type(self).commits += 1
        if type(self).commits == 2:
            self._producer.flush(timeout_s)
            self._producer.abort_transaction(timeout_s)
        else:
            self._producer.commit_transaction(timeout_s)


@pytest.mark.parametrize("restarted", [False, True], ids=["same-worker", "restarted"])
def test_commit_that_the_brokers_acknowledged_and_lost_is_made_again(
    restarted: bool, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = random_orders(seed=59, number=160)
    first, second, *_ = batches_of(orders, 40)
    monkeypatch.setattr(ForgetfulProducer, "commits", 0)
    monkeypatch.setattr(
        "airflow_provider.kafka.transactional_producer.Producer", lambda config: ForgetfulProducer(Producer(config))
    )
    instance = application.instance("i1")
    plan = instance.plan(active(0))
    slot = Slot(plan)
    slot.call(plan, (), False)
    slot.call(plan, record_batches((0, first)), False)
    status = the_only(slot.call(plan, record_batches((0, second)), False))
    assert status.source_offset == second[-1].offset + 1
    application.settle()
    if restarted:
        slot.close()
        slot = Slot(plan)
    else:
        plan = instance.plan(active(0, generation=2))

    with closing(slot):
        status = the_only(slot.call(plan, (), False))

        assert status.error_kind == "StoreDivergedError"
        assert "applied the commit at offset" in str(status.error)
        process(slot, plan, orders)
    check(application, orders)
    assert len(instance.quarantined) == 1


def test_lost_commit_is_not_gone_on_from_after_another_owner_made_more_commits(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = random_orders(seed=59, number=160, customers=120)
    first, second, *_ = batches_of(orders, 40)
    monkeypatch.setattr(ForgetfulProducer, "commits", 0)
    monkeypatch.setattr(
        "airflow_provider.kafka.transactional_producer.Producer", lambda config: ForgetfulProducer(Producer(config))
    )
    i1, i2 = application.instance("i1"), application.instance("i2")
    plan = i1.plan(active(0))
    with closing(Slot(plan)) as slot:
        for batches in ([], record_batches((0, first)), record_batches((0, second))):
            slot.call(plan, batches, False)
        application.settle()
    plan = i2.plan(active(0, generation=2))
    with closing(Slot(plan)) as slot:
        for batches in ([], record_batches((0, second[:10])), record_batches((0, second[10:20]))):
            slot.call(plan, batches, False)
        application.settle()

    following = i1.plan(standby(0, generation=2))
    with closing(Slot(following)) as slot:
        status = the_only(slot.call(following, (), False))

        assert status.error_kind == "StoreDivergedError"
        assert "applied the commit at offset" in str(status.error)
        process(slot, i1.plan(active(0, generation=3)), orders)
    application.settle()
    assert sink_of(application) == expected_outputs(orders)
    assert i1.stored() == newest_by_key(records_of(application.connection.bootstrap_servers, application.changelog))


def test_outage_is_no_change_of_the_topics(application: Application, proxy: KafkaProxy) -> None:
    admin = CountingAdmin(application.connection, timeout_s=0.5)
    watch = TopicWatch(admin, [changelog_spec(application.spec.application_id, "state", 1)], interval_s=0.1)
    watch.start()
    proxy.cut()

    wait_until(lambda: admin.in_vain >= 2, 60, "two looks in vain")
    proxy.reopen()

    watch.check()
    watch.stop()
