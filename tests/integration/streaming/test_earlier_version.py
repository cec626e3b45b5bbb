"""State folders and topics of an earlier version are taken over as they are, and go on.

`earlier_version.tar.xz` holds the bytes of commit be866e2: the folder of a broker and the stores of an instance, after
the shop of the chaos runs had 7,776 records and its instance was killed under load. Its topics keep all records
(`retention.ms`) and their deletions (`delete.retention.ms`) for longer than anybody will run this.
"""

from __future__ import annotations

import shutil
import tarfile
import time
from pathlib import Path

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.run import Options, Outcome, catch_up, judge, settle
from tests.chaos.shop import Shop
from tests.chaos.shop_evidence import STAGES
from tests.chaos.shop_load import ShopLoad

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

KEPT = Path(__file__).parent / "earlier_version.tar.xz"
DEADLINE_S = 300.0
MORE_S = 10.0
ITS_STAGES = 12
"""How many the shop had; those behind are new."""


class Found(Cluster):
    """What is there already."""

    def _mount(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)


def test_state_of_an_earlier_version_goes_on_from_its_stores_and_from_its_changelogs(tmp_path: Path) -> None:
    with tarfile.open(KEPT) as archive:
        archive.extractall(tmp_path, filter="data")
    options, outcome = Options(seed=22, heal_s=DEADLINE_S, job="shop"), Outcome(tmp_path)
    with Found(tmp_path, 1, Shop(), rate=40, seed=options.seed, heal_s=DEADLINE_S) as cluster:
        for store in cluster.stores("i1"):
            if store.parent.name.endswith("_1"):
                shutil.rmtree(store)
        assert isinstance(cluster.load, ShopLoad)
        cluster.load.orders = 1_000_000  # so that no order has the number of one that is there

        cluster.start(DEADLINE_S, load=False)

        restored = {task.task: task.restore.records for task in cluster.view.statuses["i1"].tasks}
        stored = {task: n for task, n in restored.items() if STAGES[task.stage].store and task.stage < ITS_STAGES}
        from_changelogs = [n for task, n in stored.items() if task.partition == 1]
        from_stores = [n for task, n in stored.items() if task.partition == 0]
        assert max(from_stores) < min(from_changelogs), stored
        # What lies in the archive is of an earlier day: rows of today beside it would make it late.
        assert catch_up(cluster, options, outcome), "\n".join(outcome.lines())
        cluster.load.start()
        time.sleep(MORE_S)  # as long as some windows, under load
        settle(cluster, options, outcome)
        judge(cluster, outcome)
    assert outcome.verdict.compared
    # What the earlier version had not sums up the windows that have closed since.
    wrong = [
        line
        for sort, found in outcome.verdict.differences.items()
        for line in found
        if sort != "sizes wrong" and not line.startswith("stage 12: ")
    ]
    assert not wrong, "\n".join(outcome.lines())
    assert not outcome.problems, "\n".join(outcome.lines())
