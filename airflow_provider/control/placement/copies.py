"""Which instances should hold a copy of each task: hosts kept apart first, then load evened out, with few moves."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId


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
        hosts: of each living instance.
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
