from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider.common.task_id import TaskId, tasks_of
from airflow_provider.control.placement.assignor import assign
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import InstanceStatus
from tests.builders import active, assigned, instance, placed, standby

NAMES = [f"i{number}" for number in range(6)]


def copies(warm: frozenset[tuple[int, str]]) -> dict[str, InstanceStatus]:
    """Statuses that tell of these warm copies alone."""
    names = {name for _, name in warm}
    return {name: instance(name, *(standby(task) for task, at in sorted(warm) if at == name)) for name in names}


def test_first_assignment_shares_actives_and_standbys() -> None:
    first = assign(Assignment.empty("app", tasks_of({0: 4})), ["a", "b"], 1)

    assert placed(first) == ["a b", "b a", "a b", "b a"]


def test_lone_instance_has_no_standbys() -> None:
    assert placed(assign(Assignment.empty("app", tasks_of({0: 2})), ["a"], 1)) == ["a", "a"]


def test_nobody_means_nobody() -> None:
    assert placed(assign(assigned("a b"), [], 1)) == ["-"]


def test_warm_copy_is_preferred_to_a_cold_one() -> None:
    assert placed(assign(assigned("gone b c"), ["b", "c"], 1, copies(frozenset({(0, "c")})))) == ["c b"]


def test_new_instance_gets_missing_standbys_and_no_active() -> None:
    after = assign(assigned("b", "b", "b", "b"), ["a", "b"], 1)

    assert placed(after) == ["b a"] * 4


def test_active_moves_for_balance_once_its_copy_is_warm() -> None:
    before = assigned("b a", "b a", "b a", "b a")

    after = assign(before, ["a", "b"], 1, copies(frozenset((task, "a") for task in range(4))), balance=True)

    assert Counter(task.active for task in after.values()) == {"a": 2, "b": 2}


def told(*statuses: InstanceStatus) -> dict[str, InstanceStatus]:
    return {status.instance: status for status in statuses}


def test_active_never_moves_for_balance_onto_a_copy_that_reports_an_error() -> None:
    before = assigned("b a", "b a", "b a", "b a")
    full = instance("a", *(standby(task, error="disk full") for task in range(4)))

    after = assign(before, ["a", "b"], 1, told(full), balance=True)

    assert placed(after) == placed(before)


def test_copies_beyond_the_wanted_stay_until_the_active_is_without_an_error() -> None:
    copies = (instance("b", standby(0)), instance("c", standby(0)))

    assert placed(assign(assigned("a b c"), ["a", "b", "c"], 1, told(instance("a", active(0)), *copies))) == ["a b"]
    failing = instance("a", active(0, error="its query ended"))
    assert placed(assign(assigned("a b c"), ["a", "b", "c"], 1, told(failing, *copies))) == ["a b c"]


def test_fewer_replicas_drop_standbys() -> None:
    assert placed(assign(assigned("a b c"), ["a", "b", "c"], 1)) == ["a b"]


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    tasks = []
    for _ in range(draw(st.integers(1, 12))):
        copies = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
        tasks.append(TaskAssignment(copies[0] if copies else None, tuple(copies[1:])))
    return Assignment(
        application_id="app", generation=1, tasks=dict(zip(tasks_of({0: len(tasks)}), tasks, strict=True))
    )


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Assignment, list[str], int, frozenset[tuple[int, str]]]:
    before = draw(assignments())
    alive = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    standbys = [
        (task_id.partition, name) for task_id, task in before.tasks.items() for name in task.standbys if name in alive
    ]
    warm = draw(st.sets(st.sampled_from(standbys))) if standbys else set()
    return before, alive, draw(st.integers(0, 3)), frozenset(warm)


def loads(tasks: Mapping[TaskId, TaskAssignment], alive: list[str]) -> list[int]:
    return [sum(task.active == name for task in tasks.values()) for name in alive]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_assignment_is_valid(cluster: tuple[Assignment, list[str], int, frozenset[tuple[int, str]]]) -> None:
    before, alive, replicas, warm = cluster

    after = assign(before, alive, replicas, copies(warm), balance=True)

    assert after.keys() == before.tasks.keys()
    for task in after.values():
        assert task.active in alive
        assert task.active not in task.standbys
        assert set(task.standbys) <= set(alive)
        assert len(set(task.standbys)) == len(task.standbys) >= min(replicas, len(alive) - 1)


@given(clusters(), st.sets(st.sampled_from(NAMES)))
def test_instance_that_is_not_known_to_be_gone_keeps_what_it_has_and_gets_nothing(
    cluster: tuple[Assignment, list[str], int, frozenset[tuple[int, str]]], keep: set[str]
) -> None:
    before, alive, replicas, warm = cluster
    silent = keep - set(alive)

    after = assign(before, alive, replicas, copies(warm), balance=True, keep=keep)

    for task_id, task in after.items():
        assert task.active not in task.standbys
        assert len(set(task.standbys)) == len(task.standbys)
        for name in silent:
            assert (task.active == name) == (before.tasks[task_id].active == name)
            assert (name in task.standbys) == (name in before.tasks[task_id].standbys)


def test_task_of_a_silent_instance_gets_no_further_copy_than_wanted() -> None:
    assert placed(assign(assigned("a b", "b a"), ["b", "c"], 1, keep=["a"])) == ["a b", "b a"]


@given(st.integers(1, 20), st.lists(st.sampled_from(NAMES), unique=True, min_size=1), st.integers(0, 3))
def test_first_assignment_is_balanced(tasks: int, alive: list[str], replicas: int) -> None:
    first = assign(Assignment.empty("app", tasks_of({0: tasks})), alive, replicas)

    actives = loads(first, alive)
    standbys = [sum(name in task.standbys for task in first.values()) for name in alive]
    assert max(actives) - min(actives) <= 1
    copies = [a + s for a, s in zip(actives, standbys, strict=True)]
    assert max(copies) - min(copies) <= 1
    # One more or less than even, where that evens out what each would own after a loss.
    assert max(standbys) - min(standbys) <= 2


@given(clusters())
def test_active_is_kept_unless_a_warm_copy_is_better(
    cluster: tuple[Assignment, list[str], int, frozenset[tuple[int, str]]],
) -> None:
    before, alive, replicas, warm = cluster

    after = assign(before, alive, replicas, copies(warm), balance=True)

    for task_id, old in before.tasks.items():
        new = after[task_id]
        if old.active in alive and new.active != old.active:
            assert (task_id.partition, new.active) in warm


@given(clusters())
def test_copy_is_preferred_to_an_instance_without_one(
    cluster: tuple[Assignment, list[str], int, frozenset[tuple[int, str]]],
) -> None:
    before, alive, replicas, warm = cluster

    after = assign(before, alive, replicas, copies(warm), balance=True)

    for task_id, old in before.tasks.items():
        new = after[task_id]
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
        warm = frozenset((task_id.partition, name) for task_id, task in current.tasks.items() for name in task.standbys)
        following = Assignment(
            application_id="app",
            generation=current.generation + 1,
            tasks=assign(current, alive, replicas, copies(warm), balance=True),
        )
        if placed(following) == placed(current):
            return
        current = following

    raise AssertionError(f"did not settle: {placed(current)}, instances {alive}, {replicas} replicas")


def test_last_standby_does_not_pile_up_where_only_the_fullest_instance_is_free() -> None:
    first = assign(Assignment.empty("app", tasks_of({0: 9})), ["i0", "i1", "i2"], 1)

    assert sorted(sum(name in task.standbys for task in first.values()) for name in ("i0", "i1", "i2")) == [3, 3, 3]
