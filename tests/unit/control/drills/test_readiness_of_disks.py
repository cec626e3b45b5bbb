from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.control.drills.readiness import Hit, choose_hit, disk_problems
from airflow_provider.control.records.drill_fault import DrillKind
from airflow_provider.control.records.status import DiskStatus, InstanceStatus
from airflow_provider.control.topics.view import ControlView
from tests.builders import active, assigned, instance, standby, view_of

GIB = 1 << 30


def holding(name: str, *tasks: Any, used: int = 4 * GIB, free: int | None = 100 * GIB) -> InstanceStatus:
    return instance(name, *tasks, host=f"h-{name}", disk=DiskStatus("/state", used, free))


def problems(free_on_b: int | None, used_on_a: int = 4 * GIB, used_on_b: int = 2 * GIB) -> tuple[str, ...]:
    """`a` is active for two tasks whose standbys `b` has; `c` has nothing to do with them."""
    a = holding("a", active(0), active(1), standby(2), standby(3), used=used_on_a)
    b = holding("b", standby(0), standby(1), active(2), active(3), used=used_on_b, free=free_on_b)
    c = holding("c", free=0)
    view = view_of(assigned("a b", "a b", "b a", "b a"), a, b, c)
    return disk_problems(view, DrillKind.CRASH, hit_in(view, DrillKind.CRASH, "a"), "abc")


def hit_in(view: ControlView, kind: DrillKind, instance: str) -> Hit:
    return choose_hit(view, kind, instance, tuple(view.statuses))


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


def test_only_the_standbys_of_the_victim_matter() -> None:
    a, b = holding("a", active(0)), holding("b", standby(0), free=0)
    view, nothing = view_of(assigned("a b"), a, b), view_of(None, a, b)

    assert disk_problems(view, DrillKind.CRASH, Hit(instance="b", tasks=()), "ab") == ()
    assert disk_problems(view, DrillKind.CRASH, Hit(instance="unknown", tasks=()), "ab") == ()
    assert disk_problems(nothing, DrillKind.CRASH, Hit(instance="a", tasks=()), "ab") == ()


@pytest.mark.parametrize(
    ("kind", "on", "short"),
    [
        (DrillKind.CRASH, "a", "b"),
        (DrillKind.HANG, "a", "b"),
        (DrillKind.STORE_LOST, "a", "ab"),
        (DrillKind.STORE_CORRUPTED, "a", "ab"),
        (DrillKind.STANDBY_LOST, "b", "b"),
        (DrillKind.SHADOW_RESTORE, "b", "b"),
        (DrillKind.ACTIVE_AND_STANDBY_LOST, "a", "abc"),
    ],
)
def test_kind_says_whose_disks_need_room(kind: DrillKind, on: str, short: str) -> None:
    a, b = holding("a", active(0), free=0), holding("b", standby(0), free=0)
    view = view_of(assigned("a b", "c"), a, b, holding("c", active(1), free=0), holding("d", free=0))

    lines = disk_problems(view, kind, hit_in(view, kind, on), "abc")

    assert "".join(sorted(line[0] for line in lines)) == short
    assert all("would need 4,096 MiB" in line for line in lines)


def test_reason_is_that_of_the_kind() -> None:
    a, b, c = holding("a", active(0), free=0), holding("b", standby(0), free=0), holding("c", free=0)
    view = view_of(assigned("a b"), a, b, c)

    def lines(kind: DrillKind, on: str) -> tuple[str, ...]:
        return disk_problems(view, kind, hit_in(view, kind, on), "abc")

    (line,) = lines(DrillKind.SHADOW_RESTORE, "b")
    assert "MiB for a second copy of its store of task 0_0: free some" in line
    *_, line = lines(DrillKind.ACTIVE_AND_STANDBY_LOST, "a")
    assert line.startswith("c has 0 MiB free")
    assert "MiB if it had to replay task 0_0, of which no copy is left: free some" in line
