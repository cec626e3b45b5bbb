"""Three brokers: they restart one by one under an instance, or are all gone; a transaction's coordinator moves."""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.test_late_requests import OTHERS, REFUSED, Client, error_codes
from tests.kafka_proxy import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    KafkaProxy,
)
from tests.several_brokers import START_S, STOP_S, several_brokers, wait_until_in_sync
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("broker-outage")]

NOT_LEADER, NOT_COORDINATOR, INVALID_TXN_STATE = 6, 16, 48
OUTAGE_S = 90.0
"""Longer than a client's requests, an owner's transaction and a heartbeat may take."""


@pytest.fixture(scope="module")
def proxies() -> Iterator[Sequence[KafkaProxy]]:
    with ExitStack() as stack:
        yield [stack.enter_context(KafkaProxy()) for _ in range(3)]


@pytest.fixture(scope="module")
def brokers(
    proxies: Sequence[KafkaProxy], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sequence[EmbeddedBroker]]:
    """Each behind a proxy of its own."""
    folder = tmp_path_factory.mktemp("brokers")
    with several_brokers(folder, [proxy.port for proxy in proxies]) as running:
        for proxy, broker in zip(proxies, running, strict=True):
            proxy.broker_port = broker.settings.port
        yield running


@pytest.fixture
def servers(brokers: Sequence[EmbeddedBroker], proxies: Sequence[KafkaProxy]) -> str:
    servers = ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)
    wait_until_in_sync(servers, len(brokers))
    for proxy in proxies:
        proxy.forget()
    return servers


@pytest.fixture
def topic(servers: str, application_id: str) -> str:
    TopicAdmin(KafkaConnection(servers)).ensure([TopicSpec(name=application_id, partitions=1)])
    return application_id


@pytest.mark.parametrize("committing", [True, False], ids=["commit", "abort"])
def test_late_end_that_finds_another_coordinator_ends_no_other_transaction(
    committing: bool,
    servers: str,
    brokers: Sequence[EmbeddedBroker],
    proxies: Sequence[KafkaProxy],
    topic: str,
) -> None:
    first = Client(servers, topic)
    first.producer.begin()
    first.write("first")
    hold_next(END_TXN, proxies)
    (first.producer.commit if committing else first.producer.abort)()
    coordinator = broker_that_missed_it(proxies)
    second = Client(servers, topic)
    second.producer.begin()
    second.write("half of the second")

    brokers[coordinator].stop(STOP_S)  # its coordinators move to the others

    def refused_by_all() -> bool:
        codes = error_codes(answers_of_others(proxies[coordinator], brokers, coordinator))
        return codes <= REFUSED | {NOT_COORDINATOR} and bool(codes & REFUSED)

    wait_until(refused_by_all, 120, "the new coordinator to refuse it")
    second.write("the other half")
    (second.producer.abort if committing else second.producer.commit)()
    brokers[coordinator].start(START_S)
    assert second.committed() == (["first"] if committing else ["half of the second", "the other half"])


@pytest.mark.parametrize("kind", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("open_at_the_move", [True, False], ids=["in-the-middle", "between"])
def test_other_late_requests_that_find_another_coordinator_change_no_transaction(
    kind: int,
    open_at_the_move: bool,
    servers: str,
    brokers: Sequence[EmbeddedBroker],
    proxies: Sequence[KafkaProxy],
    topic: str,
) -> None:
    hold_next(INIT_PRODUCER_ID, proxies)
    client = Client(servers, topic, timeout_ms=600_000)
    coordinator = broker_that_missed_it(proxies)
    proxies[coordinator].forget()
    hold_next(kind, proxies)
    client.write_and_commit("first", 1)
    late = proxies[broker_that_missed_it(proxies)]

    def second() -> None:
        client.producer.client.begin_transaction()  # of the same epoch, whatever the producer knows
        client.write("half of the second")  # no offset: the client would wait for the group's coordinator that stopped

    if open_at_the_move:
        second()
    brokers[coordinator].stop(STOP_S)  # its coordinators move to the others
    if not open_at_the_move:
        second()

    def answered_by_one() -> bool:
        codes = sorted(error_code(kind, answer, topic) for answer in answers_of_others(late, brokers, coordinator))
        if kind == TXN_OFFSET_COMMIT:  # the group is no part of the second: refused
            return codes == [NOT_COORDINATOR, INVALID_TXN_STATE]
        return codes == [0, NOT_LEADER if kind == PRODUCE else NOT_COORDINATOR]

    wait_until(answered_by_one, 60, "the one whose partition it is to answer it")
    client.write("the other half")
    client.producer.commit()
    brokers[coordinator].start(START_S)
    assert client.committed() == ["first", "half of the second", "the other half"]


def hold_next(kind: int, proxies: Sequence[KafkaProxy]) -> None:
    """Keep the next request of a kind, to whichever broker it is sent."""
    for proxy in proxies:
        proxy.hold(kind)


def broker_that_missed_it(proxies: Sequence[KafkaProxy]) -> int:
    """The number of the one to which it was sent; its proxy keeps it, and the others keep none any more."""
    (missing,) = [number for number, proxy in enumerate(proxies) if proxy.held]
    for number, proxy in enumerate(proxies):
        if number != missing:
            proxy.forget()
    return missing


def answers_of_others(late: KafkaProxy, brokers: Sequence[EmbeddedBroker], gone: int) -> list[bytes]:
    """To what a proxy keeps, of all brokers but one."""
    others = (broker for number, broker in enumerate(brokers) if number != gone)
    return [*itertools.chain(*(late.deliver(port=broker.settings.port) for broker in others))]


def error_code(kind: int, answer: bytes, topic: str) -> int:
    """Behind a topic's only partition, in the versions of the protocol that the client speaks, or a throttle time."""
    place = 0
    if kind != ADD_OFFSETS_TO_TXN:
        place = answer.index(topic.encode()) + len(topic) + (4 if kind == ADD_PARTITIONS_TO_TXN else 1)
    return int(struct.unpack_from(">ih", answer, place)[1])


def test_brokers_that_restart_one_by_one_or_are_gone_for_longer_than_a_deadline_cost_no_result(
    servers: str, brokers: Sequence[EmbeddedBroker], proxies: Sequence[KafkaProxy], application_id: str, tmp_path: Path
) -> None:
    with closing(Accounts(servers, application_id, tmp_path, num_tasks=2, seed=37)) as accounts:
        accounts.launch("i1")
        accounts.wait(lambda: accounts.runs("i1"), "i1 to run", 300.0)
        accounts.assign("i1", "i1")
        accounts.orders.write(40, [0, 1])
        accounts.check(240.0)
        for broker in reversed(brokers):  # the controller last
            broker.stop(STOP_S)
            accounts.orders.write(40, [0, 1])
            broker.start(START_S)
            wait_until_in_sync(servers, len(brokers))
            accounts.orders.write(40, [0, 1])
        accounts.check(240.0)

        accounts.orders.write(40, [0, 1])
        for proxy in proxies:
            proxy.cut()
        time.sleep(OUTAGE_S)
        for proxy in proxies:
            proxy.reopen()
        wait_until_in_sync(servers, len(brokers))
        accounts.orders.write(40, [0, 1])
        accounts.check(240.0)
        accounts.wait(accounts.settled, "the tasks to be well", 240.0)
        assert accounts.runs("i1"), "it was never started again"
