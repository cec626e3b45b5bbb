"""Gathers what the judge of the shop needs: its topics, and the stores of instances that have stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

from airflow_provider.common.task_id import TaskId
from tests.chaos.evidence import read, read_store
from tests.chaos.judge import Copy, Record
from tests.chaos.shop_job import APPLICATION, JOINED
from tests.chaos.shop_load import PARTITIONS


@dataclass(frozen=True)
class Stage:
    """One of the shop, as ``describe`` shows it."""

    number: int
    source: str
    tasks: int
    store: str | None = None

    @property
    def commits(self) -> str:
        """The topic of its commit records."""
        return f"{APPLICATION}-{self.number}-commits" if self.store is None else f"{APPLICATION}-{self.store}-changelog"


STAGES: Final = (
    Stage(0, "shop-orders", 2, "shop-windows"),
    Stage(1, "shop-orders", 2, "shop-unique"),
    Stage(2, "shop-orders", 2),
    Stage(3, "shop-shop-sessions-repartition", JOINED, "shop-sessions"),
    Stage(4, "shop-impressions", 1),
    Stage(5, "shop-clicks", 1),
    Stage(6, "shop-attributed-repartition", JOINED, "attributed"),
    Stage(7, "shop-orders", 2),
    Stage(8, "shop-customers", 1),
    Stage(9, "shop-enriched-repartition", JOINED, "enriched"),
    Stage(10, "shop-orders", 2),
    Stage(11, "shop-shop-products-repartition", 1, "shop-products"),
    Stage(12, "shop-shop-sizes-aggregate-rows-repartition", 2),
    Stage(13, "shop-shop-sizes-repartition", JOINED, "shop-sizes"),
    Stage(14, "shop-orders", 2, "shop-reviews"),
    Stage(15, "shop-orders", 2),
    Stage(16, "shop-versions", 1),
    Stage(17, "shop-stamped-repartition", JOINED, "stamped"),
)
SINKS: Final = ("windows", "unique", "sessions", "attributed", "enriched", "products", "sizes", "reviews", "stamped")


@dataclass(frozen=True)
class ShopEvidence:
    """Everything that is judged. Records are in the order of their offsets within a partition.

    `inputs` are by topic, `outputs` by what follows ``shop-`` in the sink's name, `commits` by stage. `lost_at` says
    where in `assignments` another life of their topic begins. `copies` are by task.
    """

    inputs: Mapping[str, Sequence[Record]]
    outputs: Mapping[str, Sequence[Record]]
    commits: Mapping[int, Sequence[Record]]
    assignments: Sequence[Record] = ()
    lost_at: Sequence[int] = ()
    copies: Mapping[TaskId, Sequence[Copy]] | None = None


def gather(
    bootstrap_servers: str, state_dirs: Mapping[str, Path], lost: Sequence[Sequence[Record]] = ()
) -> ShopEvidence:
    """Read every topic to its end under ``read_committed``, and every store that the newest assignment names.

    Args:
        bootstrap_servers: of the broker.
        state_dirs: by instance, the folder of its stores.
        lost: what earlier lives of the assignment topic held.
    """
    assignments = read(bootstrap_servers, f"{APPLICATION}-assignment")
    published = [json.loads(r.value) for r in assignments if r.key == b"assignment" and r.value]
    stores = {stage.number: stage.store for stage in STAGES}
    copies: dict[TaskId, list[Copy]] = {}
    for text, who in published[-1]["tasks"].items() if published else ():
        task = TaskId.parse(text)
        store = stores[task.stage]
        named = ([(who["active"], "active")] if who["active"] else []) + [(s, "standby") for s in who["standbys"]]
        for instance, role in named if store else ():
            path = state_dirs[instance] / APPLICATION / text / "rocksdb"
            copies.setdefault(task, []).append(read_store(path, instance, task.partition, role, f"store-{store}"))
    lives = [*lost, assignments]
    return ShopEvidence(
        {topic: read(bootstrap_servers, topic) for topic in PARTITIONS},
        {name: read(bootstrap_servers, f"{APPLICATION}-{name}") for name in SINKS},
        {stage.number: read(bootstrap_servers, stage.commits) for stage in STAGES},
        [record for life in lives for record in life],
        list(accumulate(map(len, lost))),
        copies,
    )
