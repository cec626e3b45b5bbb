"""A short run of the random faults; ``make chaos`` is the long one."""

from __future__ import annotations

import pytest

from tests.chaos.run import Options, run

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

# Some of each sort that needs little time to heal.
FAULTS = (
    "kill-driver",
    "kill-worker",
    "flip-while-stopped",
    "assignment-flip",
    "full-disk",
    "clock-jump",
    "corrupt-sst",
    "late-end",
    "one-way-partition",
    "right-taken",
    "kill-supervised",
)


def test_random_faults_lose_and_double_nothing() -> None:
    # This seed draws each of the last four, one that kills a worker, and an assignment that changes to and fro.
    options = Options(
        seed=2256, duration_s=60, instances=2, tasks=2, rate=300, faults=FAULTS, max_faults=6, deadline_s=300
    )
    outcome = run(options)
    assert outcome.right, "\n".join([*outcome.lines(), f"logs: {outcome.folder}"])
    assert outcome.faults
