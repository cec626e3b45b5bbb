from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.control.drills.disk_headroom import disk_problems
from airflow_provider.control.status import DiskStatus, InstanceStatus
from tests.builders import active, assigned, instance, standby, view_of

GIB = 1 << 30


def holding(name: str, *tasks: Any, used: int = 4 * GIB, free: int | None = 100 * GIB) -> InstanceStatus:
    return instance(name, *tasks, host=f"h-{name}", disk=DiskStatus("/state", used, free))


def problems(free_on_b: int | None, used_on_a: int = 4 * GIB, used_on_b: int = 2 * GIB) -> tuple[str, ...]:
    """`a` is active for two tasks whose standbys `b` has; `c` has nothing to do with them."""
    a = holding("a", active(0), active(1), standby(2), standby(3), used=used_on_a)
    b = holding("b", standby(0), standby(1), active(2), active(3), used=used_on_b, free=free_on_b)
    c = holding("c", free=0)
    return disk_problems(view_of(assigned("a b", "a b", "b a", "b a"), a, b, c), "a")


def test_disk_that_takes_the_stores_once_more_is_large_enough() -> None:
    # Two of the four stores that take 4 GiB together.
    assert problems(free_on_b=2 * GIB) == ()


def test_disk_that_does_not_is_named_with_figures() -> None:
    (line,) = problems(free_on_b=2 * GIB - 1)

    assert line == (
        "b has 2,048 MiB free at /state on h-b, and would need 2,048 MiB if the stores that it takes over from a had "
        "to be restored afresh: free some, or use a larger disk."
    )


def test_larger_of_the_two_copies_counts() -> None:
    assert problems(free_on_b=2 * GIB, used_on_b=8 * GIB) != ()
    assert problems(free_on_b=4 * GIB, used_on_b=8 * GIB) == ()


def test_disk_of_which_nothing_is_known_is_not_large_enough_for_anything() -> None:
    (line,) = problems(free_on_b=None)
    assert "an unknown number of MiB free" in line

    assert problems(free_on_b=None, used_on_a=0, used_on_b=0) == ()


@pytest.mark.parametrize("victim", ["b", "unknown"])
def test_only_the_standbys_of_the_victim_matter(victim: str) -> None:
    a, b = holding("a", active(0)), holding("b", standby(0), free=0)

    assert disk_problems(view_of(assigned("a b"), a, b), victim) == ()
    assert disk_problems(view_of(None, a, b), "a") == ()
