"""Schedules of the simulator, in processes of their own: there the product's clocks and clients are simulated ones."""

from __future__ import annotations

import os
import subprocess
import sys


def simulate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


def test_seed_is_a_schedule_to_the_byte_whatever_the_order_of_sets() -> None:
    once, again = (simulate("--seed", "10", "--trace", hash_seed=seed) for seed in ("1", "77"))

    assert once.returncode == 0, once.stdout + once.stderr
    assert again.stdout == once.stdout
