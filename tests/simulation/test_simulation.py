"""Schedules of the simulator, in processes of their own: there the product's clocks and clients are simulated ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def simulate(*arguments: str, hash_seed: str = "0", timeout_s: int = 850) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


def test_seed_is_a_schedule_to_the_byte_whatever_the_order_of_sets() -> None:
    once, again = (simulate("--seed", "10", "--trace", hash_seed=seed) for seed in ("1", "77"))

    assert once.returncode == 0, once.stdout + once.stderr
    assert again.stdout == once.stdout


def test_kept_schedules_find_what_they_are_kept_for() -> None:
    kept = simulate("--kept")

    assert kept.returncode == 0, kept.stdout + kept.stderr


def test_fresh_schedules_break_no_promise() -> None:
    """Two minutes of one core, or ``SIMULATE_S`` seconds, from the seed ``SIMULATE_FROM`` on, or a fresh one.

    What fails says the seed and how it is run again.
    """
    limit_s = int(os.environ.get("SIMULATE_S") or "120")
    first = ("--first", seed) if (seed := os.environ.get("SIMULATE_FROM")) else ()

    fresh = simulate("--runs", "1000000", "--limit", str(limit_s), *first, "--processes", "1", timeout_s=limit_s + 600)

    assert fresh.returncode == 0, fresh.stdout + fresh.stderr


@pytest.mark.schedules
def test_whatever_is_broken_on_purpose_is_found() -> None:
    run = simulate("--mutations", "1", "--processes", "2", timeout_s=3600)

    print(run.stdout)
    assert run.returncode == 0, run.stderr
