"""Requests of a transaction that arrive late, after the client repeated them: they change no other transaction."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from airflow_provider.control.records.task_state import TaskState
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.errors import BrokerUnreachableError, FencedError
from airflow_provider.failpoint import FailPoints
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, control_specs
from airflow_provider.kafka.transactional_producer import TransactionalProducer
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.streaming.worker.slot import Slot
from tests.builders import assigned
from tests.integration.streaming.application import Application, active, standby, the_only
from tests.integration.streaming.committed import ends_of, newest_by_key, records_of, wait_for_markers
from tests.integration.streaming.orders import batches_of, expected_outputs, random_orders, record_batches
from tests.integration.streaming.test_broker_outage import check, process
from tests.integration.streaming.test_changelog_rebuild import lose_changelog, rebuild
from tests.integration.streaming.test_ownership import sink_of
from tests.kafka_proxy import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    KafkaProxy,
    broker_behind,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("proxy")]

REFUSED = frozenset({47, 90})
"""INVALID_PRODUCER_EPOCH, PRODUCER_FENCED."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[KafkaProxy]:
    with KafkaProxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def broker(proxy: KafkaProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with broker_behind(proxy, tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def bootstrap_servers(broker: EmbeddedBroker, proxy: KafkaProxy) -> Iterator[str]:
    proxy.reopen()
    yield f"127.0.0.1:{proxy.port}"
    proxy.reopen()


@pytest.fixture
def topic(bootstrap_servers: str, application_id: str) -> str:
    TopicAdmin(KafkaConnection(bootstrap_servers)).ensure([TopicSpec(name=application_id, partitions=1)])
    return application_id


class Client:
    """One owner of a transactional id, which writes into one topic."""

    def __init__(self, bootstrap_servers: str, topic: str, timeout_ms: int = 60_000) -> None:
        self._bootstrap_servers, self.topic = bootstrap_servers, topic
        times = {"linger.ms": 1, "transaction.timeout.ms": timeout_ms}
        config = {"bootstrap.servers": bootstrap_servers, "log_level": 0, **times}
        self.producer = TransactionalProducer(config, topic, topic, timeout_s=30.0)
        self.producer.fence()

    def write(self, *values: str) -> None:
        """Into the open transaction, until the broker has them."""
        for value in values:
            self.producer.client.produce(self.topic, value.encode(), b"k", 0)
        self.producer.flush()

    def send_offset(self, offset: int) -> None:
        with closing(Consumer({"bootstrap.servers": self._bootstrap_servers, "group.id": self.topic})) as group:
            at = TopicPartition(self.topic, 0, offset)
            self.producer.client.send_offsets_to_transaction([at], group.consumer_group_metadata(), 30)

    def write_and_commit(self, value: str, offset: int | None = None) -> None:
        """In a transaction of its own, with the group's offset where one is given."""
        self.producer.begin()
        self.write(value)
        if offset is not None:
            self.send_offset(offset)
        self.producer.commit()

    def committed(self) -> list[str]:
        wait_for_markers(self._bootstrap_servers, self.topic)
        return [(record.value or b"").decode() for record in records_of(self._bootstrap_servers, self.topic)]


def error_codes(answers: Sequence[bytes]) -> set[int]:
    """Of answers to EndTxn of version 1: a throttle time, then the error."""
    return {struct.unpack_from(">ih", answer)[1] for answer in answers}


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("moved", [False, True], ids=["same-coordinator", "coordinator-loaded-again"])
@pytest.mark.parametrize("committing", [True, False], ids=["commit", "abort"])
def test_late_end_of_a_transaction_ends_no_other(
    committing: bool, moved: bool, times: int, topic: str, bootstrap_servers: str, proxy: KafkaProxy,
    broker: EmbeddedBroker,
) -> None:  # fmt: skip
    first = Client(bootstrap_servers, topic)
    first.producer.begin()
    first.write("first")
    proxy.hold(*[END_TXN] * times)
    (first.producer.commit if committing else first.producer.abort)()
    assert proxy.held == times

    assert not first.producer.reusable
    with pytest.raises(RuntimeError, match="may come late"):
        first.producer.begin()
    second = Client(bootstrap_servers, topic)
    second.producer.begin()
    second.write("half of the second")
    if moved:
        broker.stop()
        broker.start()

    def delivered() -> bool:
        answers = proxy.deliver()
        assert len(answers) == times
        return error_codes(answers) <= REFUSED

    wait_until(delivered, 30, "the coordinator, if it has to load, to refuse all of them")
    second.write("the other half")
    (second.producer.abort if committing else second.producer.commit)()
    assert second.committed() == (["first"] if committing else ["half of the second", "the other half"])


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("committing", [True, False], ids=["commit", "abort"])
def test_late_end_between_two_transactions_ends_neither(
    committing: bool, times: int, topic: str, bootstrap_servers: str, proxy: KafkaProxy
) -> None:
    first = Client(bootstrap_servers, topic)
    first.producer.begin()
    first.write("first")
    proxy.hold(*[END_TXN] * times)
    (first.producer.commit if committing else first.producer.abort)()
    assert proxy.held == times
    second = Client(bootstrap_servers, topic)

    answers = proxy.deliver()
    assert len(answers) == times
    assert error_codes(answers) <= REFUSED
    second.write_and_commit("second")
    assert second.producer.reusable
    assert second.committed() == [*(["first"] if committing else []), "second"]


OTHERS = {
    "produce": PRODUCE,
    "add-partitions": ADD_PARTITIONS_TO_TXN,
    "add-offsets": ADD_OFFSETS_TO_TXN,
    "txn-offset-commit": TXN_OFFSET_COMMIT,
}


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        *(pytest.param(kind, "between", id=f"{name}-between") for name, kind in OTHERS.items()),
        *(pytest.param(kind, "in-the-middle", id=f"{name}-in-the-middle") for name, kind in OTHERS.items()),
    ],
)
@pytest.mark.parametrize(("committing", "times"), [(True, 1), (False, 3)], ids=["then-commit", "thrice-then-abort"])
def test_other_late_requests_change_no_transaction(
    kind: int, place: str, committing: bool, times: int, topic: str, bootstrap_servers: str,
    proxy: KafkaProxy,
) -> None:  # fmt: skip
    client = Client(bootstrap_servers, topic)
    proxy.hold(*[kind] * times)
    client.write_and_commit("first", 1)
    assert proxy.held == times

    if place == "between":
        wait_for_markers(bootstrap_servers, topic)
        proxy.deliver()
    client.producer.client.begin_transaction()  # of the same epoch, whatever the producer knows
    if place == "between" and kind == PRODUCE:
        # The brokers remember that they refused its sequence, and refuse the next one: it takes another owner.
        with pytest.raises(KafkaException, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            client.write("never")
        client = Client(bootstrap_servers, topic)
        client.producer.begin()
    client.write("half of the second")
    client.send_offset(2)
    if place != "between":
        proxy.deliver()
    client.write("the other half")
    (client.producer.commit if committing else client.producer.abort)()

    expected = ["first", *(["half of the second", "the other half"] if committing else [])]
    assert client.committed() == expected


@pytest.mark.parametrize("kind", OTHERS.values(), ids=OTHERS)
def test_other_late_requests_change_nothing_of_a_coordinator_that_was_loaded_again(
    kind: int, topic: str, bootstrap_servers: str, proxy: KafkaProxy, broker: EmbeddedBroker
) -> None:
    client = Client(bootstrap_servers, topic, timeout_ms=600_000)
    proxy.hold(kind)
    client.write_and_commit("first", 1)
    assert proxy.held == 1
    broker.stop()
    broker.start()

    client.producer.client.begin_transaction()
    client.write("half of the second")
    proxy.deliver()
    client.write("the other half")
    client.producer.commit()
    assert client.committed() == ["first", "half of the second", "the other half"]


def test_late_partitions_of_an_idle_producer_cost_it_its_epoch_and_no_record(
    topic: str, bootstrap_servers: str, proxy: KafkaProxy
) -> None:
    """They begin a transaction that nobody ends: the coordinator does, once `transaction.timeout.ms` is over."""
    idle = Client(bootstrap_servers, topic, timeout_ms=10_000)
    proxy.hold(ADD_PARTITIONS_TO_TXN)
    idle.write_and_commit("first")
    before = ends_of(bootstrap_servers, topic)
    assert proxy.held == 1
    proxy.deliver()

    assert idle.committed() == ["first"], "nobody who reads waits for a transaction without records"
    wait_until(lambda: ends_of(bootstrap_servers, topic) != before, 60, "the coordinator's marker of an abort")
    with pytest.raises(KafkaException):
        idle.write_and_commit("never")
    Client(bootstrap_servers, topic).write_and_commit("second")
    assert idle.committed() == ["first", "second"]


class LateEnd:
    """A place in the commit at which late requests are delivered, once the changes before it are stored."""

    def __init__(self, name: str, proxy: KafkaProxy, application: Application) -> None:
        self._name, self._proxy, self._application = name, proxy, application
        self.answers: list[bytes] = []

    def hit(self, name: str) -> None:
        if name != self._name or not self._proxy.held or self.answers:
            return
        servers, changelog = self._application.connection.bootstrap_servers, self._application.changelog
        if name != "commit.begun":
            begun = ends_of(servers, changelog, "read_committed")
            wait_until(lambda: ends_of(servers, changelog) != begun, 30, "the changes to be stored")
        self.answers += self._proxy.deliver()


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("place", ["commit.begun", "commit.changes", "commit.outputs", "commit.offsets"])
def test_task_counts_each_row_once_whenever_the_end_of_its_commit_comes_late(
    place: str, times: int, application: Application, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = random_orders(seed=61, number=200)
    late = LateEnd(place, proxy, application)
    monkeypatch.setattr(FailPoints, "hit", lambda self, name: late.hit(name))
    plan = application.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, orders[:40])), False)
        proxy.hold(*[END_TXN] * times)
        status = the_only(slot.call(plan, record_batches((0, orders[40:80])), False))

        assert proxy.held == times
        assert status.state.value == "running", "owned again in the same call, so that no row has to come again"
        assert status.source_offset == orders[79].offset + 1
        process(slot, plan, orders)
    assert len(late.answers) == times
    check(application, orders)


def test_commits_in_a_row_whose_ends_all_come_late_count_each_row_once(
    application: Application, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = random_orders(seed=79, number=200)
    answers: list[bytes] = []

    def late(self: FailPoints, name: str) -> None:
        if name == "commit.offsets":
            answers.extend(proxy.deliver())  # all that were kept so far

    monkeypatch.setattr(FailPoints, "hit", late)
    plan = application.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        for number, part in enumerate(batches_of(orders, 40), start=1):
            proxy.hold(END_TXN)
            status = the_only(slot.call(plan, record_batches((0, part)), False))
            assert (status.state, proxy.held) == (TaskState.RUNNING, number)
    answers += proxy.deliver()

    assert len(answers) == 1 + 2 + 3 + 4 + 5
    assert error_codes(answers) <= REFUSED
    check(application, orders)


def test_late_request_for_an_epoch_fences_the_owner_which_owns_again(
    application: Application, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = random_orders(seed=83, number=200)
    late = LateEnd("commit.offsets", proxy, application)
    plan = application.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        proxy.hold(INIT_PRODUCER_ID)
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, orders[:40])), False)
        assert proxy.held == 1
        monkeypatch.setattr(FailPoints, "hit", lambda self, name: late.hit(name))
        fenced = the_only(slot.call(plan, record_batches((0, orders[40:80])), False))

        assert late.answers, "it came in the middle of the transaction"
        assert (fenced.state, fenced.source_offset) == (TaskState.CLOSED, orders[39].offset + 1)
        process(slot, plan, orders)
    check(application, orders)


def test_late_records_cost_a_task_its_producer_and_no_row(application: Application, proxy: KafkaProxy) -> None:
    orders = random_orders(seed=97, number=200)
    plan = application.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        proxy.hold(PRODUCE)
        slot.call(plan, record_batches((0, orders[:40])), False)
        assert proxy.held == 1
        wait_for_markers(application.connection.bootstrap_servers, application.changelog)
        proxy.deliver()
        process(slot, plan, orders)
    check(application, orders)


def test_late_end_of_a_rebuild_ends_no_transaction_of_the_next_owner(
    application: Application, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = random_orders(seed=89, number=120)
    plans = application.instance("i1")
    with closing(Slot(plans.plan(active(0)))) as slot:
        slot.call(plans.plan(active(0)), (), False)
        slot.call(plans.plan(active(0)), record_batches((0, orders[:40])), False)
    lose_changelog(application)
    proxy.hold(END_TXN)
    assert rebuild(plans) == 0
    assert proxy.held == 1

    again = application.started_again()
    plan = again.instance("i1").plan(active(0, 2))
    late = LateEnd("commit.changes", proxy, again)
    monkeypatch.setattr(FailPoints, "hit", lambda self, name: late.hit(name))
    with closing(Slot(plan)) as slot:
        process(slot, plan, orders)

    assert error_codes(late.answers) <= REFUSED
    assert late.answers
    again.settle()
    assert sink_of(again) == expected_outputs(orders)
    changelog = newest_by_key(records_of(again.connection.bootstrap_servers, again.changelog))
    assert again.instance("i1").stored() == changelog


@pytest.mark.parametrize("state", ["kept", "lost", "standby"])
def test_transaction_that_an_older_version_let_be_torn_is_undone(
    state: str, application: Application, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = random_orders(seed=71, number=200)
    late = LateEnd("commit.changes", proxy, application)
    first, second = application.instance("i1"), application.instance("i2")
    plan, following = first.plan(active(0)), second.plan(standby(0))

    def torn(self: FailPoints, name: str) -> None:
        late.hit(name)
        if late.answers:
            raise BrokerUnreachableError("The brokers are gone.")

    with closing(Slot(plan)) as slot, monkeypatch.context() as older:
        older.setattr(FailPoints, "hit", torn)
        older.setattr(TransactionalProducer, "reusable", True)
        older.setattr(TransactionalProducer, "begin", lambda producer: producer.client.begin_transaction())
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, orders[:40])), False)
        proxy.hold(END_TXN)
        slot.call(plan, record_batches((0, orders[40:80])), False)
        with pytest.raises(BrokerUnreachableError):
            slot.call(plan, record_batches((0, orders[80:120])), False)
    assert error_codes(late.answers) == {0}, "the late request ended the transaction"
    if state == "lost":
        shutil.rmtree(first.directory.path)
    if state == "standby":
        with closing(Slot(following)) as slot:
            status = the_only(slot.call(following, (), False))
            assert status.source_offset == orders[79].offset + 1
            process(slot, second.plan(active(0, generation=2)), orders)
    else:
        with closing(Slot(plan)) as slot:
            process(slot, plan, orders)

    application.settle()
    assert sink_of(application) == expected_outputs(orders)
    stored = newest_by_key(records_of(application.connection.bootstrap_servers, application.changelog))
    assert (second if state == "standby" else first).stored() == stored


def test_rows_of_the_same_micro_batch_go_on_after_a_commit_that_may_be_repeated(
    application: Application, proxy: KafkaProxy
) -> None:
    orders = random_orders(seed=67, number=120)
    plan = application.instance("i1").plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        proxy.hold(END_TXN)
        parts = [batch for part in batches_of(orders, 60) for batch in record_batches((0, part))]
        status = the_only(slot.call(plan, parts, False))

        assert proxy.held == 1
        assert status.source_offset == orders[-1].offset + 1
        proxy.deliver()
    check(application, orders)


def test_publisher_publishes_nothing_more_once_its_end_may_come_late(
    bootstrap_servers: str, application_id: str, proxy: KafkaProxy
) -> None:
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure(control_specs(application_id))
    following = assigned("a", generation=2, application_id=application_id)
    publisher = AssignmentPublisher(connection, application_id)
    proxy.hold(END_TXN)
    publisher.publish(assigned("a", application_id=application_id))
    assert proxy.held == 1

    with pytest.raises(FencedError, match="may come a second time"):
        publisher.publish(following)
    publisher = AssignmentPublisher(connection, application_id)
    assert error_codes(proxy.deliver()) <= REFUSED
    publisher.publish(following)
