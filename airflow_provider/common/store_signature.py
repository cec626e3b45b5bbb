"""What the state of a store means: which job can go on with it, and how, and what is said where none can."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.errors import ConfigurationError

ROCKSDB: Final = "rocksdb"
"""The name of what keeps a store where a job says nothing else."""

EMPTY_STATE: Final = (
    "another application id, or another store name where the stage keeps a store: name= of its aggregate(), process(), "
    "drop_duplicates() or join()"
)
"""To be put behind ``under`` or ``with``; ends without a full stop."""


WAYS_OUT: Final = (
    "Undo the change; or give a changed aggregate another name, under which it starts empty; or begin again with empty "
    f"state, under {EMPTY_STATE}."
)
"""What to do about a change that cannot go on."""

_MAX_LAYOUTS: Final = 255
"""A row tells its layout in one byte, from 1 on."""


@dataclass(frozen=True, kw_only=True)
class KeptAggregate:
    """One aggregate, as its accumulators lie in the rows (``docs/formats.md``).

    Args:
        type: of the result; empty where the types of the columns are not known, as are `kinds` then.
    """

    name: str
    function: str
    column: str | None
    type: str
    kinds: tuple[str, ...]
    ignorenulls: bool = False

    def __str__(self) -> str:
        nulls = ", ignorenulls=True" if self.ignorenulls else ""
        return f"{self.function}({self.column or ''}{nulls}){_of_type(self.type)}"

    def means(self, other: KeptAggregate) -> bool:
        """Whether the two are the same, as far as the types of both are known."""
        if self.type and other.type:
            return self == other
        return dataclasses.replace(self, type="", kinds=()) == dataclasses.replace(other, type="", kinds=())


@dataclass(frozen=True, kw_only=True)
class StoreSignature:
    """What the state of one store means: ``docs/formats.md`` has its fields.

    A row of aggregates begins with the number of its layout, so that rows of several versions of a job lie in one
    store, and none has to be rewritten. An aggregate that was removed keeps its place in `aggregates`, for the rows
    that still hold it. One that is added again gets a new place and starts empty: some keys had records without it.

    Args:
        segment_ms: as its first commit has it, because keys may depend on it.
        join: what is kept of which rows, and for how long, in words that are compared as they are.
        columns: a row says itself which of them it has.
        writes: so a change that one of two stages refuses is refused by the other, before anything is written that it
            would misread.
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
    emit: str | None = None
    combined: bool | None = None
    times: Mapping[str, str] = field(default_factory=dict)
    writes: Mapping[str, StoreSignature] = field(default_factory=dict)

    @property
    def places(self) -> tuple[int, ...]:
        """Of the aggregates that are kept now, in the order in which they lie in a row."""
        return self.layouts[self.layout - 1] if self.layout else ()

    def changes_to(self, now: StoreSignature) -> list[str]:
        """What a job cannot make of this state, a line for each: what it was and what it is now.

        Types that only one of the two knows are no change.
        """
        if self.operation != now.operation:
            return [f"{self.operation}() became {now.operation}()"]
        changes = []
        if self.key != now.key or _differ(self.key_type, now.key_type):
            before, after = _of_type(self.key_type), _of_type(now.key_type)
            changes.append(f"group_by({self.key!r}){before} became group_by({now.key!r}){after}")
        if self.window != now.window:
            changes.append(f"{self.window or 'no window'} became {now.window or 'no window'}")
        if self.join != now.join:
            changes.append(f"{self.join or 'no join'} became {now.join or 'no join'}")
        if (self.emit, now.emit) == ("close", "update"):
            changes.append(
                'emit="close" became emit="update", under which a window that is open now would come out only if '
                "another record of it came"
            )
        if None not in (self.combined, now.combined) and self.combined != now.combined:
            changes.append(f"combine={self.combined} became combine={now.combined}")
        for name in sorted(self.columns.keys() & now.columns.keys()):
            if self.columns[name] != now.columns[name]:
                changes.append(f"the column {name!r}: {self.columns[name]} became {now.columns[name]}")
        for topic in sorted(self.times.keys() & now.times.keys()):
            if self.times[topic] != now.times[topic]:
                changes.append(f"the time of the table {topic!r}: {self.times[topic]} became {now.times[topic]}")
        if self.version != now.version:
            changes.append(f"{now.operation}(version={self.version}) became version={now.version}")
        kept = {self.aggregates[place].name: self.aggregates[place] for place in self.places}
        for aggregate in now.aggregates:
            was = kept.get(aggregate.name, aggregate)
            if not was.means(aggregate):
                changes.append(f"the aggregate {aggregate.name!r}: {was} became {aggregate}")
        for topic in sorted(self.writes.keys() & now.writes.keys()):
            behind = self.writes[topic].changes_to(now.writes[topic])
            changes += [f"behind {topic!r}, {change}" for change in behind]
        return changes

    def continued_by(self, now: StoreSignature) -> StoreSignature:
        """The signature of the store once a changed job writes into it.

        An aggregate of the same name goes on; one that is new starts empty; one that is missing is dropped. A column
        that rows lost is remembered, because rows have it, and so is an internal topic.

        Args:
            now: what the job would write into an empty store; one that `changes_to` has nothing against.

        Raises:
            ConfigurationError: rows of too many layouts lie in the store.
        """
        writes = {
            topic: self.writes[topic].continued_by(written) if topic in self.writes else written
            for topic, written in now.writes.items()
        }
        continued = dataclasses.replace(
            now,
            # Keys depend on the segments, which may be of another length in the changed job.
            segment_ms=self.segment_ms,
            columns={**self.columns, **now.columns},
            times={**self.times, **now.times},
            writes={**self.writes, **writes},
        )
        if not now.layout:
            return continued
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
            continued, aggregates=tuple(aggregates), layouts=layouts, layout=layouts.index(wanted) + 1
        )


def _of_type(kind: str) -> str:
    return f" of type {kind}" if kind else ""


def _differ(kind: str, other: str) -> bool:
    """Whether two types are known to be different ones."""
    return bool(kind and other) and kind != other
