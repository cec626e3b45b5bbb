"""Where copies of tasks should be: a pure function, sorted, without a clock.

It follows Kafka Streams' high-availability assignor (KIP-441) in what it promises: valid (no standby beside its
active), balanced, sticky, copies of a task on different hosts, and a task's active moves for balance only onto an
instance that is warm. Where that needs a further copy, it begins as a standby beyond the wanted number, and what is too
many goes once every copy that stays is warm.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.placement.copies import Copies
from airflow_provider.control.placement.hosts import hosts_of
from airflow_provider.control.placement.ranking import rank_copies, standby_copy
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import InstanceStatus, Role, TaskState


def assign(
    previous: Assignment,
    instances: Collection[str],
    num_standby_replicas: int = 1,
    statuses: Mapping[str, InstanceStatus] | None = None,
    balance: bool = False,
    keep: Collection[str] = (),
) -> dict[TaskId, TaskAssignment]:
    """Who should work for each task, given who is alive.

    With `balance` it is one step: published, and asked again once every copy is warm, it ends after a few steps where
    nothing changes any more.

    Args:
        previous: what was assigned; its tasks are kept.
        instances: the names of the living instances.
        num_standby_replicas: wanted standbys per task; fewer where there are not enough instances.
        statuses: the newest status of each instance; by them the best copy is chosen (see `rank_copies`), what is
            warm is known, and hosts are kept apart.
        balance: whether copies and actives also move from instances that live, where that evens out the load.
        keep: instances that are not known to be gone: those of them that are not among the living keep what they have,
            and get nothing.

    Returns:
        One `TaskAssignment` per task, sorted by task; ``active_since`` is set by `Assignment.next`.
    """
    alive = sorted(set(instances))
    after = _assigned(previous, alive, num_standby_replicas, statuses or {}, balance)
    silent = set(keep) - set(alive)
    return {
        task_id: _with_silent(task, after[task_id], {*alive, *silent}, num_standby_replicas)
        if silent.intersection((task.active, *task.standbys))
        else after[task_id]
        for task_id, task in previous.tasks.items()
    }


def _with_silent(
    task: TaskAssignment, after: TaskAssignment, present: Collection[str], replicas: int
) -> TaskAssignment:
    """A task of which a silent instance has a copy: none is taken away, and missing ones are added."""
    active = task.active if task.active in present else after.active
    standbys = [name for name in task.standbys if name in present and name != active]
    more = [name for name in (after.active, *after.standbys) if name and name not in (active, *standbys)]
    return TaskAssignment(active, (*standbys, *more[: max(0, replicas - len(standbys))]))


def _assigned(
    previous: Assignment,
    alive: list[str],
    num_standby_replicas: int,
    known: Mapping[str, InstanceStatus],
    balance: bool,
) -> dict[TaskId, TaskAssignment]:
    if not alive:
        return dict.fromkeys(previous.tasks, TaskAssignment(None))
    actives = _actives(previous, alive, known)
    held = {
        task_id: [active, *(name for name in previous.tasks[task_id].standbys if name in alive and name != active)]
        for task_id, active in actives.items()
    }
    wanted = Copies(held, hosts_of(alive, known), min(num_standby_replicas + 1, len(alive)))
    wanted.keep_held()
    wanted.fill()
    if balance:
        wanted.balance()
        actives = _balanced(actives, wanted, known)
    return {
        task_id: TaskAssignment(active, _standbys(task_id, active, held[task_id], wanted.of(task_id), known))
        for task_id, active in actives.items()
    }


def _actives(previous: Assignment, alive: list[str], statuses: Mapping[str, InstanceStatus]) -> dict[TaskId, str]:
    """The living owners, and the best copy for each task without one."""
    load = Counter(task.active for task in previous.tasks.values() if task.active in alive)
    chosen = {}
    for task_id, task in previous.tasks.items():
        if task.active is not None and task.active in alive:
            chosen[task_id] = task.active
            continue
        # Any copy is worth more than balance: it costs its lag, a replay costs the size of the state.
        copies = [name for name in task.standbys if name in alive]
        chosen[task_id] = rank_copies(task_id, copies or alive, statuses, load)[0]
        load[chosen[task_id]] += 1
    return chosen


def _balanced(
    actives: Mapping[TaskId, str], wanted: Copies, statuses: Mapping[str, InstanceStatus]
) -> dict[TaskId, str]:
    """The owners after the moves that need no wait for a restore."""
    owners = dict(actives)
    load = Counter(owners.values())
    # A task that failed goes elsewhere by the answer to its failure, or waits for a person.
    movable = [task_id for task_id, name in owners.items() if not _has_failed(statuses.get(name), task_id)]
    warm = {
        task_id: [name for name in wanted.of(task_id) if _is_warm(statuses.get(name), task_id)] for task_id in movable
    }
    for task_id in movable:
        owner = owners[task_id]
        if owner not in wanted.of(task_id) and len(warm[task_id]) == len(wanted.of(task_id)):
            owners[task_id] = target = rank_copies(task_id, warm[task_id], statuses, load)[0]
            load[owner] -= 1
            load[target] += 1
    while path := _path(owners, warm, load):
        for task_id, target in path:
            load[owners[task_id]] -= 1
            load[target] += 1
            owners[task_id] = target
    return owners


def _path(
    owners: Mapping[TaskId, str], warm: Mapping[TaskId, Sequence[str]], load: Mapping[str, int]
) -> Sequence[tuple[TaskId, str]]:
    """The fewest promotions that take one task from a full instance to one that has two tasks less, at the least."""
    edges: dict[str, dict[str, TaskId]] = {}
    for task_id, copies in warm.items():
        for name in copies:
            if name != owners[task_id]:
                edges.setdefault(owners[task_id], {}).setdefault(name, task_id)
    for source in sorted(edges, key=lambda n: (-load[n], n)):
        paths: dict[str, tuple[tuple[TaskId, str], ...]] = {source: ()}
        queue = deque([source])
        while queue:
            at = queue.popleft()
            for target in sorted(edges.get(at, {}), key=lambda n: (load[n], n)):
                if target in paths:
                    continue
                paths[target] = (*paths[at], (edges[at][target], target))
                if load[target] <= load[source] - 2:
                    return paths[target]
                queue.append(target)
    return ()


def _standbys(
    task_id: TaskId,
    active: str,
    held: Sequence[str],
    wanted: Sequence[str],
    statuses: Mapping[str, InstanceStatus],
) -> tuple[str, ...]:
    """The wanted copies, and as many others as it takes until those are ready; the former active one first."""
    others = [name for name in held if name not in wanted]
    if active == held[0]:
        waited_for = sum(not _is_ready(statuses.get(name), task_id, name == active) for name in wanted)
        others = [name for name in others if _is_warm(statuses.get(name), task_id)][:waited_for]
    keep = {*wanted, *others} - {active}
    return tuple(name for name in dict.fromkeys([*held, *wanted]) if name in keep)


def _is_warm(status: InstanceStatus | None, task_id: TaskId) -> bool:
    copy = standby_copy(status, task_id)
    return copy is not None and copy.ready


def _is_ready(status: InstanceStatus | None, task_id: TaskId, active: bool) -> bool:
    if not active:
        return _is_warm(status, task_id)
    task = status.task(task_id) if status is not None else None
    running = task is not None and task.role is Role.ACTIVE and task.state is TaskState.RUNNING
    return running and task is not None and task.error is None


def _has_failed(status: InstanceStatus | None, task_id: TaskId) -> bool:
    task = status.task(task_id) if status is not None else None
    return task is not None and task.role is Role.ACTIVE and task.state is TaskState.FAILED
