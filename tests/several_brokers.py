"""A cluster of several of the kit's brokers; the first is the controller, too."""

from __future__ import annotations

import base64
import dataclasses
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.folder import write_properties
from tests.brokers import settings_of_broker
from tests.waiting import wait_until

START_S: Final = 600.0
STOP_S: Final = 120.0
"""A broker hands its partitions over before it ends."""

_OF_SEVERAL: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "controlled.shutdown.enable": "true",
}
_HEAP_BYTES: Final = 256 << 20


@contextmanager
def several_brokers(
    folder: Path, advertised: Sequence[int | None] = (None, None, None)
) -> Iterator[list[EmbeddedBroker]]:
    """Three or more brokers, of which each holds a copy of every partition where they are three.

    Args:
        folder: of all of them.
        advertised: of each, the port that clients are told; None for its own.
    """
    brokers: list[EmbeddedBroker] = []
    with ExitStack() as stack:
        for number, port in enumerate(advertised, start=1):
            place = folder / f"broker-{number}"
            settings = settings_of_broker(place, node_id=number, heap_bytes=_HEAP_BYTES)
            overrides = dict(_OF_SEVERAL)
            if port is not None:
                overrides["advertised.listeners"] = f"CLIENT://127.0.0.1:{port}"
            if brokers:
                controller = brokers[0].settings
                overrides |= {
                    "process.roles": "broker",
                    "controller.quorum.voters": f"{controller.node_id}@127.0.0.1:{controller.controller_port}",
                    "listeners": f"CLIENT://127.0.0.1:{settings.port}",
                }
                _format_as(brokers[0], place / "data", number)
            broker = EmbeddedBroker(dataclasses.replace(settings, overrides=tuple(overrides.items())))
            broker.start(START_S)
            stack.callback(broker.kill)
            brokers.append(broker)
        yield brokers


def wait_until_in_sync(bootstrap_servers: str, number: int) -> None:
    """Until every partition has so many copies that are in sync, and the first of them leads or could."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def in_sync() -> bool:
        names = list(admin.list_topics(timeout=30.0).topics)
        described = admin.describe_topics(TopicCollection(names)).values()
        return all(len(p.isr) == number for topic in described for p in topic.result(30.0).partitions)

    wait_until(in_sync, 300.0, "all copies to be in sync", poll_s=0.5)


def _format_as(first: EmbeddedBroker, data: Path, number: int) -> None:
    """Make a data folder of the first one's cluster: the kit formats each for a cluster of its own."""
    lines = (first.folder.data / "meta.properties").read_text().splitlines()
    known = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    data.mkdir(parents=True)
    own = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    write_properties(data / "meta.properties", known | {"node.id": str(number), "directory.id": own})
