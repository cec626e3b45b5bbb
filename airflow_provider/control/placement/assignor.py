"""Where copies of tasks should be: a pure function, sorted, without a clock.

It follows Kafka Streams' high-availability assignor (KIP-441) in what it promises: valid (no standby beside its
active), balanced, sticky, copies of a task on different hosts, and a task's active moves for balance only onto an
instance that is warm. Where that needs a further copy, it begins as a standby beyond the wanted number, and what is too
many goes once every copy that stays is warm.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.placement.ranking import rank_copies, standby_copy
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import InstanceStatus, Role, TaskState


@dataclass(frozen=True)
class _Move:
    task: TaskId
    source: str
    target: str


class Copies:
    """The copies of every task while they are placed, active and standby alike.

    Every change makes more hosts hold a task, or the instances' numbers of copies more even, so each method ends.

    Args:
        held: by task the living instances that hold a copy, preferred first; its active one is the first.
        count: how many copies a task shall have; not more than there are instances.
    """

    def __init__(self, held: Mapping[TaskId, Sequence[str]], hosts: Mapping[str, str], count: int) -> None:
        self._held = held
        self._hosts = hosts
        self._count = count
        self._instances = sorted(hosts)
        self._of: dict[TaskId, list[str]] = {task: [] for task in held}
        self._on: dict[str, set[TaskId]] = {name: set() for name in self._instances}
        self._actives = Counter(names[0] for names in held.values() if names)
        self._shared: Counter[tuple[str, str]] = Counter()

    def of(self, task: TaskId) -> Sequence[str]:
        """The instances that should hold a copy of a task."""
        return self._of[task]

    def keep_held(self) -> None:
        """Choose among the copies that are there: the active one, then first those on further hosts."""
        for task, names in self._held.items():
            rest = list(names)
            while rest and len(self._of[task]) < self._count:
                used = self._hosts_of(task)
                name = min(rest, key=lambda n: self._hosts[n] in used and bool(self._of[task]))
                rest.remove(name)
                self._add(task, name)

    def fill(self) -> None:
        """Add the copies that are missing, then even out those that are new."""
        for task in self._of:
            while len(self._of[task]) < self._count:
                used = self._hosts_of(task)
                free = [name for name in self._instances if name not in self._of[task]]
                self._add(
                    task,
                    min(free, key=lambda n: (self._hosts[n] in used, self._would_own(task, n), len(self._on[n]), n)),
                )
        self._even_out(lambda move: move.source not in self._held[move.task])

    def balance(self) -> None:
        """Move copies: off a host that holds two of a task, and from full instances to emptier ones.

        Instances that hold a copy beyond the wanted number come first, so what was begun is ended.
        """
        for task in self._of:
            self._separate(task)
        self._even_out(lambda move: move.target in self._held[move.task])
        self._even_out(lambda _: True)

    def _separate(self, task: TaskId) -> None:
        while True:
            used = self._hosts_of(task)
            counted = Counter(self._hosts[name] for name in self._of[task])
            # The active one is the first, and the last to move.
            double = [name for name in reversed(self._of[task]) if counted[self._hosts[name]] > 1]
            free = [name for name in self._instances if self._hosts[name] not in used]
            if not double or not free:
                return
            held = self._held[task]
            target = min(free, key=lambda n: (n not in held, len(self._on[n]), self._would_own(task, n), n))
            self._apply(_Move(task, double[0], target))

    def _even_out(self, allowed: Callable[[_Move], bool]) -> None:
        while path := self._path(allowed):
            for move in path:
                self._apply(move)

    def _path(self, allowed: Callable[[_Move], bool]) -> Sequence[_Move]:
        """Moves that take one copy from a full instance to an emptier one, directly where that is possible."""
        for source in sorted(self._instances, key=lambda n: (-len(self._on[n]), n)):
            ends = {name for name in self._instances if len(self._on[name]) <= len(self._on[source]) - 2}
            if ends and (path := self._path_from(source, ends, allowed)):
                return path
        return ()

    def _path_from(self, source: str, ends: Collection[str], allowed: Callable[[_Move], bool]) -> Sequence[_Move]:
        by_load = sorted(self._instances, key=lambda n: (len(self._on[n]), n))
        paths: dict[str, tuple[_Move, ...]] = {source: ()}
        queue = deque([source])
        while queue:
            at = queue.popleft()
            for target in by_load:
                if target in paths:
                    continue
                move = self._best(at, target, paths[at], allowed)
                if move is None:
                    continue
                paths[target] = (*paths[at], move)
                if target in ends:
                    return paths[target]
                queue.append(target)
        return ()

    def _best(
        self, source: str, target: str, before: Collection[_Move], allowed: Callable[[_Move], bool]
    ) -> _Move | None:
        used = {move.task for move in before}
        moves = [_Move(task, source, target) for task in self._on[source] - self._on[target] - used]
        possible = [move for move in moves if self._keeps_apart(move) and allowed(move)]
        return min(possible, key=self._cost, default=None)

    def _cost(self, move: _Move) -> tuple[bool, int, TaskId]:
        gain = self._would_own(move.task, move.target) - self._would_own(move.task, move.source)
        return self._active(move.task) == move.source, gain, move.task

    def _keeps_apart(self, move: _Move) -> bool:
        others = [self._hosts[name] for name in self._of[move.task] if name != move.source]
        return self._hosts[move.target] not in others or self._hosts[move.source] in others

    def _would_own(self, task: TaskId, name: str) -> int:
        """Of how many tasks an instance would be the active one if this task's active one were lost."""
        return self._actives[name] + self._shared[(self._active(task), name)]

    def _active(self, task: TaskId) -> str:
        return self._held[task][0]

    def _hosts_of(self, task: TaskId) -> set[str]:
        return {self._hosts[name] for name in self._of[task]}

    def _apply(self, move: _Move) -> None:
        place = self._of[move.task].index(move.source)
        self._of[move.task][place] = move.target
        self._on[move.source].remove(move.task)
        self._on[move.target].add(move.task)
        self._shared[(self._active(move.task), move.source)] -= 1
        self._shared[(self._active(move.task), move.target)] += 1

    def _add(self, task: TaskId, name: str) -> None:
        self._of[task].append(name)
        self._on[name].add(task)
        self._shared[(self._active(task), name)] += 1


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
        if silent.intersection(task.holders)
        else after[task_id]
        for task_id, task in previous.tasks.items()
    }


def _with_silent(
    task: TaskAssignment, after: TaskAssignment, present: Collection[str], replicas: int
) -> TaskAssignment:
    """A task of which a silent instance has a copy: none is taken away, and missing ones are added."""
    active = task.active if task.active in present else after.active
    standbys = [name for name in task.standbys if name in present and name != active]
    more = [name for name in after.holders if name not in (active, *standbys)]
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


def hosts_of(instances: Collection[str], statuses: Mapping[str, InstanceStatus]) -> dict[str, str]:
    """The host of each instance; one that reported none counts as alone on a host of its own."""
    known = {name: statuses[name].stores_host for name in instances if name in statuses}
    # No host's name holds a slash, so these are distinct from each other and from every real one.
    return {name: known.get(name) or f"unknown/{name}" for name in instances}


def tasks_on_one_host(
    tasks: Mapping[TaskId, TaskAssignment], statuses: Mapping[str, InstanceStatus]
) -> dict[TaskId, str]:
    """By task the host with which all of its copies would be lost, although there is more than one."""
    found = {}
    for task_id, task in tasks.items():
        copies = [*([task.active] if task.active else []), *task.standbys]
        hosts = set(hosts_of(copies, statuses).values())
        if len(copies) > 1 and len(hosts) == 1:
            found[task_id] = hosts.pop()
    return found
