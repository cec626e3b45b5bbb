"""Adding an instance moves load to it: clusters that are asked for the next step until nothing changes any more."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping

import pytest

from airflow_provider.common.task_id import TaskId, tasks_of
from airflow_provider.control.failover.decide import decide
from airflow_provider.control.placement.assignor import assign, tasks_on_one_host
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.incident import Incident, IncidentKind
from airflow_provider.control.records.status import InstanceState, InstanceStatus, RestorePhase, TaskState
from tests.builders import APPLICATION, active, assigned, instance, placed, standby

MAX_STEPS = 12


class Cluster:
    """Instances that do at once what the newest generation says, but have to learn when their copies are warm."""

    def __init__(self, assignment: Assignment, alive: Mapping[str, str], replicas: int = 1) -> None:
        self.assignment = assignment
        self.hosts = dict(alive)
        self.replicas = replicas
        self.warm = {(task, name) for task, given in assignment.tasks.items() for name in copies_of(given)}

    @property
    def alive(self) -> list[str]:
        return sorted(self.hosts)

    @property
    def statuses(self) -> dict[str, InstanceStatus]:
        return {
            name: instance(
                name,
                *(active(task, generation=9) for task in self.assignment.active_on(name)),
                *(
                    standby(task, restore_phase=None if (task, name) in self.warm else RestorePhase.CHANGELOG)
                    for task in self.assignment.standby_on(name)
                ),
                host=host,
            )
            for name, host in self.hosts.items()
        }

    def next(self, balance: bool = True) -> dict[TaskId, TaskAssignment]:
        return assign(self.assignment, self.alive, self.replicas, self.statuses, balance=balance)

    def step(self, balance: bool = True) -> bool:
        """Publish the next generation; whether anything changed."""
        following = self.next(balance)
        if placed(following) == placed(self.assignment):
            return False
        self.apply(self.assignment.next(following, "test", carried_out=0))
        return True

    def apply(self, following: Assignment) -> None:
        self.assignment = following
        there = {(task, name) for task, given in following.tasks.items() for name in copies_of(given)}
        owners = {(task, given.active) for task, given in following.tasks.items() if given.active}
        self.warm = {copy for copy in self.warm if copy in there} | owners

    def warm_up(self, chosen: Callable[[tuple[TaskId, str]], bool] = lambda _: True) -> None:
        cold = [(task, name) for task, given in self.assignment.tasks.items() for name in given.standbys]
        self.warm |= {copy for copy in cold if chosen(copy)}

    def settle(self) -> int:
        """Step until nothing changes while all copies are warm; how many generations that took."""
        for steps in range(MAX_STEPS):
            self.warm_up()
            if not self.step():
                return steps
        raise AssertionError(f"did not settle: {placed(self.assignment)} on {self.hosts}")

    def lose(self, name: str) -> None:
        """It dies; the failover answers."""
        incident = Incident(
            application_id=APPLICATION,
            kind=IncidentKind.INSTANCE_ENDED,
            instance=name,
            incarnation=1,
            tasks=self.assignment.active_on(name),
            evidence="killed",
        )
        statuses = self.statuses | {name: instance(name, state=InstanceState.ENDED)}
        del self.hosts[name]
        plan = decide(incident, self.assignment, statuses, self.alive, self.replicas)
        if plan.assignment is not None:
            self.apply(plan.assignment)

    def actives(self) -> list[int]:
        return [len(self.assignment.active_on(name)) for name in self.alive]

    def copies(self) -> list[int]:
        return [len(self.assignment.active_on(n)) + len(self.assignment.standby_on(n)) for n in self.alive]


def copies_of(task: TaskAssignment) -> list[str]:
    return [*([task.active] if task.active else []), *task.standbys]


def on_hosts(*names: str) -> dict[str, str]:
    """``on_hosts("a@h1", "b")``: by instance its host; without one, one of its own."""
    return {name.partition("@")[0]: name.partition("@")[2] or f"host-of-{name}" for name in names}


def deployed(tasks: int, *names: str, replicas: int = 1) -> Cluster:
    empty = Assignment.empty(APPLICATION, tasks_of({0: tasks}))
    cluster = Cluster(empty, on_hosts(*names), replicas)
    cluster.step(balance=False)
    cluster.warm_up()
    return cluster


def spread(loads: Collection[int]) -> int:
    return max(loads) - min(loads)


def test_third_instance_gets_its_share_of_actives_and_standbys() -> None:
    cluster = deployed(6, "a", "b")
    cluster.hosts["c"] = "host-of-c"

    cluster.settle()

    assert cluster.actives() == [2, 2, 2]
    assert cluster.copies() == [4, 4, 4]


def test_new_instance_is_first_a_further_standby_then_the_active_then_surplus_copies_go() -> None:
    cluster = Cluster(assigned("a b", "b a", "a b", "b a", "a b", "b a"), on_hosts("a", "b", "c"))
    before = cluster.assignment

    assert cluster.step()
    warming = cluster.assignment
    assert [t.active for t in warming.tasks.values()] == [t.active for t in before.tasks.values()]
    assert {len(t.standbys) for t in warming.tasks.values()} == {1, 2}
    assert not cluster.step()

    cluster.warm_up()
    assert cluster.step()
    assert len(cluster.assignment.active_on("c")) == 2

    cluster.settle()
    assert {len(t.standbys) for t in cluster.assignment.tasks.values()} == {1}


def test_two_losses_and_two_returns_end_as_even_as_they_began() -> None:
    cluster = deployed(10, "a", "b", "c")
    for name in ("b", "c"):
        cluster.lose(name)
        cluster.warm_up()
    assert cluster.actives() == [10]

    for name in ("b", "c"):
        cluster.hosts[name] = f"host-of-{name}"
        cluster.step(balance=False)
        cluster.settle()

    assert sorted(cluster.actives()) == [3, 3, 4]
    assert sorted(cluster.copies()) == [6, 7, 7]


@pytest.mark.parametrize("victim", ["a", "b", "c"])
def test_failover_leaves_the_survivors_with_the_same_load(victim: str) -> None:
    cluster = deployed(10, "a", "b", "c")

    cluster.lose(victim)

    assert cluster.actives() == [5, 5]


@pytest.mark.parametrize("tasks", range(1, 25))
@pytest.mark.parametrize("instances", range(2, 7))
def test_each_instance_can_be_lost_without_unevenness(tasks: int, instances: int) -> None:
    names = [f"i{number}" for number in range(instances)]
    for victim in names:
        cluster = deployed(tasks, *names)
        assert max(spread(cluster.actives()), spread(cluster.copies())) <= 1

        cluster.lose(victim)

        assert spread(cluster.actives()) <= (1 if instances == 3 else 2), (victim, cluster.actives())


def test_copies_of_a_task_are_on_different_hosts() -> None:
    cluster = deployed(6, "a@h1", "b@h1", "c@h2")

    assert cluster.settle() == 0
    assert cluster.actives() == [2, 2, 2]
    assert cluster.copies() == [3, 3, 6]
    assert tasks_on_one_host(cluster.assignment.tasks, cluster.statuses) == {}


def test_standby_beside_its_active_moves_once_another_host_is_there() -> None:
    cluster = deployed(4, "a@h1", "b@h1")
    assert set(tasks_on_one_host(cluster.assignment.tasks, cluster.statuses).values()) == {"h1"}
    cluster.hosts |= on_hosts("c@h2", "d@h2")

    cluster.settle()

    assert tasks_on_one_host(cluster.assignment.tasks, cluster.statuses) == {}
    assert (cluster.actives(), cluster.copies()) == ([1] * 4, [2] * 4)


def test_instances_that_reported_no_host_count_as_apart() -> None:
    statuses = {"a": instance("a")}

    assert tasks_on_one_host(assigned("a b").tasks, statuses) == {}


def test_failed_task_is_not_moved_for_balance() -> None:
    cluster = Cluster(assigned("a b", "a b"), on_hosts("a", "b"))
    failed = active(0, TaskState.FAILED), active(1, TaskState.FAILED)
    statuses = cluster.statuses | {"a": instance("a", *failed)}

    after = assign(cluster.assignment, ["a", "b"], 1, statuses, balance=True)

    assert placed(after) == placed(cluster.assignment)


def test_copy_with_an_error_is_no_warm_one() -> None:
    statuses = {
        "a": instance("a", active(0), active(1)),
        "b": instance("b", *(standby(t, error="full") for t in (0, 1))),
    }

    after = assign(assigned("a b", "a b"), ["a", "b"], 1, statuses, balance=True)

    assert placed(after) == ["a b", "a b"]


@pytest.mark.parametrize("seed", range(150))
def test_random_clusters_settle_evenly_and_never_lack_a_warm_copy_on_the_way(seed: int) -> None:
    rng = random.Random(seed)
    replicas = rng.randint(0, 3)
    hosts = drawn_hosts(rng)
    names = sorted(hosts)
    cluster = deployed(rng.randint(1, 24), *(f"{n}@{hosts[n]}" for n in names[: rng.randint(1, len(names))]),
                       replicas=replicas)  # fmt: skip
    for _ in range(4):
        change(cluster, hosts, rng)
        steps = 0
        while True:
            cluster.warm_up(lambda _: rng.random() < 0.4)
            before, warm = cluster.assignment, set(cluster.warm)
            again = placed(cluster.next())
            assert placed(cluster.next()) == again
            if cluster.step():
                steps += 1
                check_step(before, cluster.assignment, warm, cluster)
            elif warm >= {(t, n) for t, given in before.tasks.items() for n in copies_of(given)}:
                break
            assert steps < 40, f"seed {seed}: {placed(cluster.assignment)}"
        check_settled(cluster)


def drawn_hosts(rng: random.Random) -> dict[str, str]:
    names = [f"i{number}" for number in range(rng.randint(1, 7))]
    kind = rng.choice(["each its own", "all on one", "pairs", "random"])
    by_kind: dict[str, Callable[[int], int]] = {
        "each its own": lambda number: number,
        "all on one": lambda _: 0,
        "pairs": lambda number: number // 2,
        "random": lambda _: rng.randint(0, 3),
    }
    return {name: f"h{by_kind[kind](number)}" for number, name in enumerate(names)}


def change(cluster: Cluster, hosts: Mapping[str, str], rng: random.Random) -> None:
    """Some die, one after the other, some come."""
    for name in rng.sample(cluster.alive, rng.randint(0, len(cluster.alive) - 1)):
        cluster.lose(name)
        if rng.random() < 0.5:
            cluster.warm_up()
    for name in rng.sample(sorted(hosts), rng.randint(0, len(hosts))):
        cluster.hosts.setdefault(name, hosts[name])


def check_step(before: Assignment, after: Assignment, warm: Collection[tuple[TaskId, str]], cluster: Cluster) -> None:
    wanted = min(cluster.replicas, len(cluster.alive) - 1)
    for task, new in after.tasks.items():
        old = before.tasks[task]
        assert len(new.standbys) >= wanted
        if new.active != old.active and old.active in cluster.alive:
            assert (task, new.active) in warm
            assert new.active in old.standbys
        warm_before = sum((task, name) in warm for name in copies_of(old))
        warm_after = sum((task, name) in warm for name in copies_of(new))
        assert warm_after >= min(warm_before, wanted + 1), f"{task}: {old} to {new}"


def check_settled(cluster: Cluster) -> None:
    wanted = min(cluster.replicas, len(cluster.alive) - 1)
    assert {len(task.standbys) for task in cluster.assignment.tasks.values()} == {wanted}
    sizes = Counter(cluster.hosts.values())
    apart = min(wanted + 1, len(sizes))
    for task in cluster.assignment.tasks.values():
        assert len({cluster.hosts[name] for name in copies_of(task)}) == apart
    if len(set(sizes.values())) == 1:
        assert spread(cluster.copies()) <= 1, placed(cluster.assignment)
        assert spread(cluster.actives()) <= 1, placed(cluster.assignment)
