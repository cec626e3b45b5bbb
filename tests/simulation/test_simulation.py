"""Schedules of the simulator, in processes of their own: there the product's clocks and clients are simulated ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def simulate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


def test_seed_is_a_schedule_to_the_byte_whatever_the_order_of_sets() -> None:
    once, again = (simulate("--seed", "10", "--trace", hash_seed=seed) for seed in ("1", "77"))

    assert once.returncode == 0, once.stdout + once.stderr
    assert again.stdout == once.stdout


@pytest.mark.long
def test_schedules_that_are_kept_find_what_they_are_kept_for_and_nothing_else() -> None:
    run = simulate("--kept")

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.schedules
def test_fresh_schedules_break_no_promise() -> None:
    run = simulate("--runs", "1000000", "--limit", "240", "--processes", "2")

    print(run.stdout)
    assert run.returncode == 0, run.stderr


@pytest.mark.schedules
def test_whatever_is_broken_on_purpose_is_found() -> None:
    run = simulate("--mutations", "1", "--processes", "2")

    print(run.stdout)
    assert run.returncode == 0, run.stderr
