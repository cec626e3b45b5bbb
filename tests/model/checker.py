"""Looks at every state of a model, breadth first, so that the way to a broken invariant is a shortest one.

A state is what all parts share, and the parts. The steps of a part depend on what is shared and on that part, so they
are computed once for each such pair, however many states it occurs in. States that differ by the order of the parts, or
by the names of the two instances, are one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Broken", "Explored", "Model", "Step", "explore"]

C = TypeVar("C", bound=Hashable)
P = TypeVar("P", bound=Hashable)

_BITS = 24
_MASK = (1 << _BITS) - 1


class Model(Protocol[C, P]):
    """What is explored."""

    @property
    def initial(self) -> tuple[C, tuple[P, ...]]:
        """Where it begins: what is shared, and the parts."""

    def common_steps(self, common: C) -> Iterable[tuple[Any, C, Callable[[P], tuple[P, ...]]]]:
        """Steps of all parts at once: a label, what is shared then, and what may become of a part."""

    def steps(self, common: C, part: P) -> Iterable[tuple[Any, C, P]]:
        """Steps of one part: a label, what is shared then, and the part."""

    def mirrored(self, common: C) -> C:
        """What is shared, with the instances exchanged."""

    def mirrored_part(self, part: P) -> P:
        """A part, with the instances exchanged."""


@dataclass(frozen=True)
class Step(Generic[C, P]):
    """One step of a way: its label, whose it is (None for all parts at once), and the state that it leads to."""

    label: Any
    part: int | None
    common: C
    parts: tuple[P, ...]


@dataclass(frozen=True)
class Broken(Generic[C, P]):
    """A state that must not be: the name of the invariant that it breaks, and the way to it from the first step on."""

    invariant: str
    way: tuple[Step[C, P], ...]


@dataclass(frozen=True)
class Explored(Generic[C, P]):
    """What was found.

    Args:
        states: that differ.
        steps: between them.
        depth: of the state that is farthest from the first.
        broken: the nearest state that breaks an invariant, or from which the end cannot be reached; None where there is
            none, and all were seen.
        labels: of the steps that were taken.
    """

    states: int
    steps: int
    depth: int
    broken: Broken[C, P] | None
    labels: frozenset[Any]


def explore(
    model: Model[C, P],
    invariants: Mapping[str, Callable[[P], bool]],
    done: Callable[[P], bool],
    faults: Callable[[Any], bool],
) -> Explored[C, P]:
    """Look at every state until an invariant is broken; then whether the end can be reached from each.

    Args:
        model: whose.
        invariants: of each part, by name.
        done: whether a part is at its end.
        faults: whether a step's label is that of a fault, without which the end must be reached.
    """
    graph = _Graph(model, faults)
    first = graph.first()
    order, number, came_from = [first], {first: 0}, array("l", [0])
    begins, targets = array("l"), array("l")  # of the steps that are no faults, by the state that they begin at
    steps = 0

    def explored(broken: str | None, at: int) -> Explored[C, P]:
        way = [at]
        while way[-1]:
            way.append(came_from[way[-1]])
        taken = None if broken is None else Broken(broken, _taken(graph, [order[n] for n in reversed(way)]))
        return Explored(len(order), steps, len(way) - 1, taken, graph.labels)

    verdicts: dict[int, str | None] = {}
    for at, state in enumerate(order):
        for part in graph.parts_of(state):
            if part not in verdicts:
                verdicts[part] = next(
                    (name for name, holds in invariants.items() if not holds(graph.parts[part])), None
                )
            if verdicts[part] is not None:
                return explored(verdicts[part], at)
        begins.append(len(targets))
        for successor, fault in graph.successors(state):
            steps += 1
            to = number.setdefault(successor, len(order))
            if to == len(order):
                order.append(successor)
                came_from.append(at)
            if not fault:
                targets.append(to)
    begins.append(len(targets))
    ends = [at for at, state in enumerate(order) if all(done(graph.parts[part]) for part in graph.parts_of(state))]
    nearest = _that_does_not_reach(ends, begins, targets)
    return explored(None, len(order) - 1) if nearest is None else explored("Progress", nearest)


def _that_does_not_reach(ends: list[int], begins: Sequence[int], targets: Sequence[int]) -> int | None:
    """The first state from which no steps lead to an end."""
    into = [array("l") for _ in range(len(begins) - 1)]
    for source in range(len(into)):
        for target in targets[begins[source] : begins[source + 1]]:
            into[target].append(source)
    reaches = bytearray(len(into))
    for end in ends:
        reaches[end] = 1
    while ends:
        for source in into[ends.pop()]:
            if not reaches[source]:
                reaches[source] = 1
                ends.append(source)
    nearest = reaches.find(0)
    return None if nearest < 0 else nearest


class _Graph(Generic[C, P]):
    """The states as integers: what is shared, and the parts, each numbered as it is met."""

    def __init__(self, model: Model[C, P], faults: Callable[[Any], bool]) -> None:
        self.model, self._faults = model, faults
        self.commons: list[C] = []
        self.parts: list[P] = []
        self.labels: frozenset[Any] = frozenset()
        self._common_number: dict[C, int] = {}
        self._part_number: dict[P, int] = {}
        self._mirrored: list[int] = []
        self._mirrored_part: list[int] = []
        self._own: dict[int, tuple[tuple[int, int, bool], ...]] = {}
        self._shared: dict[
            int, tuple[tuple[int, bool, Callable[[P], tuple[P, ...]], dict[int, tuple[int, ...]]], ...]
        ] = {}
        self._size = len(model.initial[1])

    def first(self) -> int:
        common, parts = self.model.initial
        return self._packed(self._number(common), [self._number_part(part) for part in parts])

    def parts_of(self, state: int) -> list[int]:
        return [(state >> (_BITS * at)) & _MASK for at in range(self._size)]

    def successors(self, state: int) -> Iterator[tuple[int, bool]]:
        """The states that follow, and whether by a fault."""
        common, parts = state >> (_BITS * self._size), self.parts_of(state)
        for at, part in enumerate(parts):
            key = (common << _BITS) | part
            own = self._own.get(key)
            if own is None:
                own = self._own[key] = self._own_steps(common, part)
            others = parts[:at] + parts[at + 1 :]
            for to, moved, fault in own:
                yield self._packed(to, [moved, *others]), fault
        shared = self._shared.get(common)
        if shared is None:
            shared = self._shared[common] = self._shared_steps(common)
        for to, fault, effect, known in shared:
            combined: list[list[int]] = [[]]
            for part in parts:
                moved_to = known.get(part)
                if moved_to is None:
                    moved_to = known[part] = tuple(map(self._number_part, effect(self.parts[part])))
                combined = [[*before, moved] for before in combined for moved in moved_to]
            for moved_parts in combined:
                yield self._packed(to, moved_parts), fault

    def concrete(self, common: C, parts: tuple[P, ...]) -> Iterator[tuple[int, Step[C, P]]]:
        """The steps from a state as the model has it, each with the number of the state it leads to."""
        for at, part in enumerate(parts):
            for label, to, moved in self.model.steps(common, part):
                yield self._step(Step(label, at, to, (*parts[:at], moved, *parts[at + 1 :])))
        for label, to, effect in self.model.common_steps(common):
            combined: list[tuple[P, ...]] = [()]
            for part in parts:
                combined = [(*before, moved) for before in combined for moved in effect(part)]
            for moved_parts in combined:
                yield self._step(Step(label, None, to, moved_parts))

    def _step(self, step: Step[C, P]) -> tuple[int, Step[C, P]]:
        return self._packed(self._number(step.common), [self._number_part(part) for part in step.parts]), step

    def _own_steps(self, common: int, part: int) -> tuple[tuple[int, int, bool], ...]:
        found = list(self.model.steps(self.commons[common], self.parts[part]))
        self.labels |= {label for label, _, _ in found}
        return tuple((self._number(to), self._number_part(moved), self._faults(label)) for label, to, moved in found)

    def _shared_steps(
        self, common: int
    ) -> tuple[tuple[int, bool, Callable[[P], tuple[P, ...]], dict[int, tuple[int, ...]]], ...]:
        found = list(self.model.common_steps(self.commons[common]))
        self.labels |= {label for label, _, _ in found}
        return tuple((self._number(to), self._faults(label), effect, {}) for label, to, effect in found)

    def _packed(self, common: int, parts: list[int]) -> int:
        """The smaller of the state's number and that of its mirror image."""
        mirrored = self._mirrored_part
        image = [mirrored[part] for part in parts]
        if len(parts) > 1:
            parts.sort()
            image.sort()
        one, other = common, self._mirrored[common]
        for at in range(len(parts)):
            one, other = (one << _BITS) | parts[at], (other << _BITS) | image[at]
        return min(one, other)

    def _number(self, common: C) -> int:
        number = self._common_number.get(common)
        if number is None:
            number = self._add(common)
            image = self.model.mirrored(common)
            self._mirrored[number] = number if image == common else self._add(image)
            self._mirrored[self._mirrored[number]] = number
        return number

    def _add(self, common: C) -> int:
        number = self._common_number[common] = len(self.commons)
        self.commons.append(common)
        self._mirrored.append(number)
        return number

    def _number_part(self, part: P) -> int:
        number = self._part_number.get(part)
        if number is None:
            number = self._add_part(part)
            image = self.model.mirrored_part(part)
            self._mirrored_part[number] = number if image == part else self._add_part(image)
            self._mirrored_part[self._mirrored_part[number]] = number
        return number

    def _add_part(self, part: P) -> int:
        number = self._part_number[part] = len(self.parts)
        self.parts.append(part)
        self._mirrored_part.append(number)
        return number


def _taken(graph: _Graph[C, P], states: list[int]) -> tuple[Step[C, P], ...]:
    """The steps through states, with the instances' names as they are from the first step on."""
    common, parts = graph.model.initial
    way = list[Step[C, P]]()
    for state in states[1:]:
        step = next(step for reached, step in graph.concrete(common, parts) if reached == state)
        way.append(step)
        common, parts = step.common, step.parts
    return tuple(way)
