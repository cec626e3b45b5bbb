"""A short run of the random faults; ``make chaos`` is the long one."""

from __future__ import annotations

from tests.chaos.run import Options, run

FAULTS = ("kill-driver", "kill-worker", "hang", "assignment-flip", "corrupt-sst", "restart-broker")


def test_random_faults_lose_and_double_nothing() -> None:
    outcome = run(Options(seed=20, duration_s=30, instances=2, tasks=2, rate=300, faults=FAULTS))
    assert outcome.right, "\n".join([*outcome.lines(), f"logs: {outcome.folder}"])
    assert outcome.faults
