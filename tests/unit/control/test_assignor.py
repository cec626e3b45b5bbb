from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.control.assignment import Assignment, TaskAssignment
from airflow_provider.control.assignor import assign
from tests.builders import assigned, placed

NAMES = [f"i{number}" for number in range(6)]


def test_first_assignment_shares_actives_and_standbys() -> None:
    first = assign(Assignment.empty("app", 4), ["a", "b"], 1)

    assert placed(first) == ["a b", "b a", "a b", "b a"]


def test_lone_instance_has_no_standbys() -> None:
    assert placed(assign(Assignment.empty("app", 2), ["a"], 1)) == ["a", "a"]


def test_nobody_means_nobody() -> None:
    assert placed(assign(assigned("a b"), [], 1)) == ["-"]


def test_warm_copy_is_preferred_to_a_cold_one() -> None:
    assert placed(assign(assigned("gone b c"), ["b", "c"], 1, frozenset({(0, "c")}))) == ["c b"]


def test_new_instance_gets_standbys_and_no_active() -> None:
    after = assign(assigned("b", "b", "b", "b"), ["a", "b"], 1)

    assert placed(after) == ["b a"] * 4


def test_active_moves_for_balance_once_its_copy_is_warm() -> None:
    before = assigned("b a", "b a", "b a", "b a")

    after = assign(before, ["a", "b"], 1, frozenset((task, "a") for task in range(4)))

    assert Counter(task.active for task in after) == {"a": 2, "b": 2}


def test_fewer_replicas_drop_standbys() -> None:
    assert placed(assign(assigned("a b c"), ["a", "b", "c"], 1)) == ["a b"]


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    tasks = []
    for _ in range(draw(st.integers(1, 12))):
        copies = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
        tasks.append(TaskAssignment(copies[0] if copies else None, tuple(copies[1:])))
    return Assignment("app", 1, tuple(tasks))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Assignment, list[str], int, frozenset[tuple[int, str]]]:
    before = draw(assignments())
    alive = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    standbys = [(number, name) for number, task in enumerate(before.tasks) for name in task.standbys if name in alive]
    warm = draw(st.sets(st.sampled_from(standbys))) if standbys else set()
    return before, alive, draw(st.integers(0, 3)), frozenset(warm)


def loads(tasks: tuple[TaskAssignment, ...], alive: list[str]) -> list[int]:
    return [sum(task.active == name for task in tasks) for name in alive]


@given(clusters())
def test_assignment_is_valid(cluster: tuple[Assignment, list[str], int, frozenset[tuple[int, str]]]) -> None:
    before, alive, replicas, warm = cluster

    after = assign(before, alive, replicas, warm)

    assert len(after) == len(before.tasks)
    for task in after:
        assert task.active in alive
        assert task.active not in task.standbys
        assert set(task.standbys) <= set(alive)
        assert len(set(task.standbys)) == len(task.standbys) == min(replicas, len(alive) - 1)


@given(st.integers(1, 20), st.lists(st.sampled_from(NAMES), unique=True, min_size=1), st.integers(0, 3))
def test_first_assignment_is_balanced(tasks: int, alive: list[str], replicas: int) -> None:
    first = assign(Assignment.empty("app", tasks), alive, replicas)

    actives = loads(first, alive)
    standbys = [sum(name in task.standbys for task in first) for name in alive]
    assert max(actives) - min(actives) <= 1
    assert max(standbys) - min(standbys) <= max(1, replicas)


@given(clusters())
def test_active_is_kept_unless_a_warm_copy_is_better(
    cluster: tuple[Assignment, list[str], int, frozenset[tuple[int, str]]],
) -> None:
    before, alive, replicas, warm = cluster

    after = assign(before, alive, replicas, warm)

    for number, (old, new) in enumerate(zip(before.tasks, after, strict=True)):
        if old.active in alive and new.active != old.active:
            assert (number, new.active) in warm


@given(clusters())
def test_copy_is_preferred_to_an_instance_without_one(
    cluster: tuple[Assignment, list[str], int, frozenset[tuple[int, str]]],
) -> None:
    before, alive, replicas, warm = cluster

    after = assign(before, alive, replicas, warm)

    for old, new in zip(before.tasks, after, strict=True):
        living = [name for name in old.standbys if name in alive]
        if old.active not in alive and living:
            assert new.active in living


@given(clusters())
def test_assigning_again_changes_nothing_once_all_are_warm(
    cluster: tuple[Assignment, list[str], int, frozenset[tuple[int, str]]],
) -> None:
    before, alive, replicas, _ = cluster
    current = before
    for _ in range(len(before.tasks) + 2):
        warm = frozenset((number, name) for number, task in enumerate(current.tasks) for name in task.standbys)
        following = Assignment("app", current.generation + 1, assign(current, alive, replicas, warm))
        if placed(following) == placed(current):
            return
        current = following

    raise AssertionError(f"did not settle: {placed(current)}, instances {alive}, {replicas} replicas")


def test_last_standby_does_not_pile_up_where_only_the_fullest_instance_is_free() -> None:
    first = assign(Assignment.empty("app", 9), ["i0", "i1", "i2"], 1)

    assert sorted(sum(name in task.standbys for task in first) for name in ("i0", "i1", "i2")) == [3, 3, 3]
