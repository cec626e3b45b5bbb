"""Where copies of tasks should be: a pure function, sorted, without a clock.

It follows Kafka Streams' high-availability assignor (KIP-441) in what it promises: valid (no standby beside its
active), balanced within one task, sticky, and a task's active moves for balance only onto an instance that is warm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Set

from airflow_provider.control.assignment import Assignment, TaskAssignment

__all__ = ["assign"]


def assign(
    previous: Assignment,
    instances: Collection[str],
    num_standby_replicas: int = 1,
    warm: Set[tuple[int, str]] = frozenset(),
) -> tuple[TaskAssignment, ...]:
    """Who should work for each task, given who is alive.

    Args:
        previous: what was assigned; its number of tasks is kept.
        instances: the names of the living instances.
        num_standby_replicas: wanted standbys a task; fewer where there are not enough instances.
        warm: pairs (task, instance) whose standby copy has seen the end of its changelog.

    Returns:
        One `TaskAssignment` a task, in order; ``active_since`` is set by `Assignment.next`.
    """
    alive = sorted(set(instances))
    actives = _actives(previous, alive, warm)
    return tuple(
        TaskAssignment(active, standbys)
        for active, standbys in zip(actives, _standbys(previous, alive, actives, num_standby_replicas), strict=True)
    )


def _actives(previous: Assignment, alive: list[str], warm: Set[tuple[int, str]]) -> list[str | None]:
    if not alive:
        return [None] * len(previous.tasks)
    kept = [task.active if task.active in alive else None for task in previous.tasks]
    load = Counter(dict.fromkeys(alive, 0))
    load.update(name for name in kept if name)
    for task, active in enumerate(kept):
        if active is None:
            # Any copy is worth more than balance: it costs its lag, a replay costs the size of the state.
            copies = [name for name in previous.tasks[task].standbys if name in alive]
            pool = [n for n in copies if (task, n) in warm] or copies or alive
            kept[task] = chosen = min(pool, key=lambda n: (load[n], n))
            load[chosen] += 1
    for task, active in enumerate(kept):
        # Even out, but never by making a task wait for a restore.
        warmer = [n for n in previous.tasks[task].standbys if n in alive and (task, n) in warm]
        target = min(warmer, key=lambda n: (load[n], n), default=None)
        if active and target and load[active] - load[target] >= 2:
            kept[task] = target
            load[active] -= 1
            load[target] += 1
    return kept


def _standbys(
    previous: Assignment, alive: list[str], actives: list[str | None], replicas: int
) -> list[tuple[str, ...]]:
    load = Counter(dict.fromkeys(alive, 0))
    chosen: list[list[str]] = []
    for task, active in enumerate(actives):
        before = previous.tasks[task]
        # A former active that lives holds the freshest copy of all.
        sticky = [before.active] if before.active and before.active != active else []
        sticky += [name for name in before.standbys if name not in sticky]
        keep = [name for name in sticky if name in alive and name != active][:replicas]
        load.update(keep)
        chosen.append(keep)
    placed: list[tuple[int, str]] = []
    for task, (active, keep) in enumerate(zip(actives, chosen, strict=True)):
        while active is not None and len(keep) < replicas:
            free = [name for name in alive if name != active and name not in keep]
            if not free:
                break
            name = min(free, key=lambda n: (load[n], n))
            keep.append(name)
            placed.append((task, name))
            load[name] += 1
    _even_out(placed, alive, actives, chosen, load)
    return [tuple(keep) for keep in chosen]


def _even_out(
    placed: list[tuple[int, str]],
    alive: list[str],
    actives: list[str | None],
    chosen: list[list[str]],
    load: Counter[str],
) -> None:
    """Move copies that are new anyway: the last task may have had only the fullest instance free."""
    moved = True
    while moved:  # every move makes the loads more even, so this ends
        moved = False
        for at, (task, name) in enumerate(placed):
            free = [n for n in alive if n != actives[task] and n not in chosen[task]]
            target = min(free, key=lambda n: (load[n], n), default=None)
            if target is not None and load[name] - load[target] >= 2:
                chosen[task][chosen[task].index(name)] = target
                placed[at] = (task, target)
                load[name] -= 1
                load[target] += 1
                moved = True
