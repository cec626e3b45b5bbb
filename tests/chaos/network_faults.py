"""Faults between an instance and its brokers: late requests, a direction that stands still, a right that is taken."""

from __future__ import annotations

import random
import time
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from airflow_provider.kafka.names import transactional_id
from tests.chaos.cluster import Cluster
from tests.chaos.fault import Fault, owner_of
from tests.kafka_proxy import END_TXN

_CAUGHT_S: Final = 10.0
_REQUEST_S: Final = 20.0


class LateEnd(Fault):
    """The end of a transaction is kept, its connection broken, and it is delivered in the middle of later ones."""

    name = "late-end"
    weight = 4.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, times = owner_of(cluster, chance), chance.choice([1, 1, 2])
        pauses = [chance.choice([0.0, 0.05, 0.3, 1.0, 3.0]) for _ in range(3)]
        if victim is None:
            return ""
        proxy = cluster.proxies[victim]
        proxy.hold(*[END_TXN] * times)
        try:
            deadline = time.monotonic() + _CAUGHT_S
            while proxy.held < times and time.monotonic() < deadline:
                time.sleep(0.01)
            caught = proxy.held
            for pause_s in pauses:
                time.sleep(pause_s)
                proxy.deliver()
        finally:
            proxy.forget()
        waited = ", ".join(f"{pause_s:g}" for pause_s in pauses)
        return f"{caught} of {victim}, delivered {waited} s after one another" if caught else ""


class OneWayPartition(Fault):
    """Requests, or answers, of an instance stand still for 3 to 40 s and arrive all the same afterwards."""

    name = "one-way-partition"
    weight = 2.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, way = chance.choice(cluster.names), chance.choice(["requests", "answers"])
        pause_s = chance.choice([3.0, 3.0, 8.0, 15.0, 40.0])
        proxy = cluster.proxies[victim]
        proxy.stall(requests=way == "requests")
        try:
            time.sleep(pause_s)
        finally:
            proxy.flow()
        return f"{way} of {victim} for {pause_s:g} s"


class RightTaken(Fault):
    """A right that the tasks need is taken away from all of them at once, and given back."""

    name = "right-taken"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        admin = AdminClient({"bootstrap.servers": cluster.broker.bootstrap_servers})
        kind, name, right = chance.choice(_rights(cluster, admin))
        pause_s = chance.choice([2.0, 10.0, 30.0])
        place = (kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
        denied = AclBinding(*place, right, AclPermissionType.DENY)
        # A resource of which an ACL speaks is nobody's but those whom one allows.
        rest = AclBinding(*place, AclOperation.ALL, AclPermissionType.ALLOW)
        for done in admin.create_acls([rest, denied]).values():
            done.result(_REQUEST_S)
        try:
            time.sleep(pause_s)
        finally:
            everything = AclBindingFilter(*place, AclOperation.ANY, AclPermissionType.ANY)
            for removed in admin.delete_acls([everything]).values():
                removed.result(_REQUEST_S)
        return f"{right.name} on {kind.name} {name} for {pause_s:g} s"


def _rights(cluster: Cluster, admin: AdminClient) -> list[tuple[ResourceType, str, AclOperation]]:
    """All that may be taken: those of the tasks' transactions, and to read what is their input."""
    application = cluster.application
    topics = [t for t in admin.list_topics(timeout=_REQUEST_S).topics if t.startswith(f"{application}-")]
    written = sorted(t for t in topics if t.endswith(("-changelog", "-commits", "-repartition")))
    sources = sorted(
        {topic for topic, _ in cluster.load.committed} | {t for t in written if t.endswith("-repartition")}
    )
    ids = [transactional_id(application, task) for task in cluster.workload.tasks]
    return [
        *((ResourceType.TOPIC, topic, AclOperation.WRITE) for topic in written),
        *((ResourceType.TOPIC, topic, AclOperation.READ) for topic in sorted(sources)),
        *((ResourceType.TRANSACTIONAL_ID, id_, AclOperation.WRITE) for id_ in ids),
        (ResourceType.GROUP, application, AclOperation.READ),
    ]
