"""What the bytes of a store mean: written with every commit, compared before the next owner touches them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.common.empty_state import EMPTY_STATE
from airflow_provider.errors import ConfigurationError

__all__ = ["KeptAggregate", "StoreSignature"]

_MAX_LAYOUTS: Final = 255
"""A row tells its layout in one byte, from 1 on."""


@dataclass(frozen=True, kw_only=True)
class KeptAggregate:
    """One aggregate, as its accumulators lie in the rows.

    Args:
        name: of the result.
        function: what is computed.
        column: of what; None counts rows.
        type: of the result.
        kinds: how each of its accumulators is kept: ``integer``, ``double``, ``decimal``, ``text``.
        ignorenulls: for first and last: whether nulls are ignored.
    """

    name: str
    function: str
    column: str | None
    type: str
    kinds: tuple[str, ...]
    ignorenulls: bool = False

    def __str__(self) -> str:
        """As a person would write it."""
        nulls = ", ignorenulls=True" if self.ignorenulls else ""
        return f"{self.function}({self.column or ''}{nulls}) of type {self.type}"


@dataclass(frozen=True, kw_only=True)
class StoreSignature:
    """What the state of one store means.

    A row of aggregates begins with the number of its layout, so that rows of several versions of a job lie in one
    store, and none has to be rewritten. An aggregate that was removed keeps its place in `aggregates`, for the rows
    that still hold it. One that is added again gets a new place and starts empty: some keys had records without it.

    Args:
        key: the column that the state is kept by.
        key_type: its type, on which the bytes of the keys depend.
        operation: ``aggregate``, ``process``, ``drop_duplicates`` or what kind of join.
        window: the windows of event time that the state is kept by beside the key, or the time within which duplicates
            are dropped; None for neither.
        segment_ms: how long the segments are in which such a store is kept (`state.time_segments`): as its first commit
            has it, because keys may depend on it.
        version: of the state of a function, as its author counts; None for aggregates.
        aggregates: all that the rows of the store may hold, in the order in which they were added.
        layouts: which of them a row holds, by their places in `aggregates`; the first is layout 1.
        layout: the number of the layout that is written now; 0 where there are no aggregates.
        join: of which rows a join is, and which of them it keeps for how long; None for no join.
        columns: by name, the types of all columns that the rows of a join may hold. A row says itself which it has.
    """

    key: str
    key_type: str
    operation: str
    window: str | None = None
    segment_ms: int | None = None
    version: int | None = None
    aggregates: tuple[KeptAggregate, ...] = ()
    layouts: tuple[tuple[int, ...], ...] = ()
    layout: int = 0
    join: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def places(self) -> tuple[int, ...]:
        """Of the aggregates that are kept now, in the order in which they lie in a row."""
        return self.layouts[self.layout - 1] if self.layout else ()

    def changes_to(self, now: StoreSignature) -> list[str]:
        """What a job cannot make of this state, a line for each: what it was and what it is now.

        Args:
            now: what the job would write into an empty store.
        """
        if self.operation != now.operation:
            return [f"{self.operation}() became {now.operation}()"]
        changes = []
        if (self.key, self.key_type) != (now.key, now.key_type):
            changes.append(
                f"group_by({self.key!r}) of type {self.key_type} became group_by({now.key!r}) of type {now.key_type}"
            )
        if self.window != now.window:
            changes.append(f"{self.window or 'no window'} became {now.window or 'no window'}")
        if self.join != now.join:
            changes.append(f"{self.join or 'no join'} became {now.join or 'no join'}")
        for name in sorted(self.columns.keys() & now.columns.keys()):
            if self.columns[name] != now.columns[name]:
                changes.append(f"the column {name!r}: {self.columns[name]} became {now.columns[name]}")
        if self.version != now.version:
            changes.append(f"process(version={self.version}) became version={now.version}")
        kept = {self.aggregates[place].name: self.aggregates[place] for place in self.places}
        for aggregate in now.aggregates:
            before = kept.get(aggregate.name, aggregate)
            if before != aggregate:
                changes.append(f"the aggregate {aggregate.name!r}: {before} became {aggregate}")
        return changes

    def continued_by(self, now: StoreSignature) -> StoreSignature:
        """The signature of the store once a changed job writes into it.

        An aggregate of the same name goes on; one that is new starts empty; one that is missing is dropped. A column
        that a join lost is remembered, because rows have it.

        Args:
            now: what the job would write into an empty store; one that `changes_to` has nothing against.

        Raises:
            ConfigurationError: rows of too many layouts lie in the store.
        """
        if not now.layout:
            # Keys depend on the segments, which may be of another length in the changed job.
            return dataclasses.replace(now, segment_ms=self.segment_ms, columns={**self.columns, **now.columns})
        known = {self.aggregates[place].name: place for place in self.places}
        aggregates, places = list(self.aggregates), []
        for aggregate in now.aggregates:
            if aggregate.name not in known:
                known[aggregate.name] = len(aggregates)
                aggregates.append(aggregate)
            places.append(known[aggregate.name])
        # In one order, so that aggregates in another order make no new layout.
        wanted, layouts = tuple(sorted(places)), self.layouts
        if wanted not in layouts:
            if len(layouts) == _MAX_LAYOUTS:
                raise ConfigurationError(
                    f"This store has had {_MAX_LAYOUTS} sets of aggregates, and its rows can tell no more apart: go "
                    f"back to an earlier set, or begin again with {EMPTY_STATE}."
                )
            layouts = (*layouts, wanted)
        return dataclasses.replace(
            self, aggregates=tuple(aggregates), layouts=layouts, layout=layouts.index(wanted) + 1
        )
