"""Short runs of the random faults; ``make chaos`` is the long one."""

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
        seed=2256, duration_s=150, instances=2, tasks=2, rate=300, faults=FAULTS, max_faults=6, deadline_s=300
    )
    drawn = outcome_of(options)
    assert {"late-end", "one-way-partition", "kill-supervised", "right-taken"} <= drawn.keys()


def test_instance_that_is_added_and_removed_under_load_loses_and_doubles_nothing() -> None:
    # This seed removes it in each of the three ways.
    options = Options(
        seed=11, duration_s=400, instances=2, tasks=3, rate=300, faults=["add-instance"], max_faults=3, deadline_s=800
    )
    drawn = outcome_of(options)
    assert {what.rpartition(" ")[2] for what in drawn["add-instance"]} == {"stop", "terminate", "kill"}


def test_stages_whose_upstream_task_is_held_lose_and_double_nothing() -> None:
    # This seed holds one, kills a worker, and holds one for half a minute.
    faults = ["held-upstream", "kill-worker"]
    options = Options(
        seed=12,
        duration_s=400,
        instances=2,
        rate=200,
        faults=faults,
        max_faults=3,
        deadline_s=800,
        heal_s=300,
        job="shop",
    )
    drawn = outcome_of(options)
    assert [what.rpartition(" for ")[2] for what in drawn["held-upstream"]] == ["10 s", "30 s"]


def outcome_of(options: Options) -> dict[str, list[str]]:
    """By name of the faults that were injected, what each did; the judge found nothing wrong."""
    outcome = run(options)
    assert outcome.right, "\n".join([*outcome.lines(), f"logs: {outcome.folder}"])
    drawn: dict[str, list[str]] = {}
    for fault in outcome.faults:
        drawn.setdefault(fault.name, []).append(fault.what)
    return drawn
