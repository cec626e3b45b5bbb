"""What a function of ``process()`` keeps of a key beside its one value: named stores and timers.

They lie under keys that begin with a byte that no text has: ``docs/formats.md`` lists them. The value of a store's key
is an array of pairs (`json.user_values`): when it was written, or null without a ttl, and what was.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from airflow_provider.errors import ConfigurationError
from airflow_provider.state.time_segments import PREFIX_BYTES, time_of, time_prefix
from airflow_provider.streaming.json.user_values import decode_state, encode_state
from airflow_provider.streaming.operations.batch import OpenState
from airflow_provider.streaming.operations.operation import BESIDE_GROUPS
from airflow_provider.streaming.operations.process import ValueState
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK
from airflow_provider.streaming.terms.argument_check import check_kind, duration_ms

Kind = Literal["value", "list", "map"]

TIMER: Final = BESIDE_GROUPS + b"t"
CLOCK: Final = BESIDE_GROUPS + b"p"
EXPIRY: Final = BESIDE_GROUPS + b"x"
SET: Final = b"\x01"

_KINDS: Final[dict[Kind, bytes]] = {
    "value": BESIDE_GROUPS + b"v",
    "list": BESIDE_GROUPS + b"l",
    "map": BESIDE_GROUPS + b"m",
}
_LENGTH: Final = struct.Struct(">I")
_HEAD: Final = len(BESIDE_GROUPS) + 1
_MAX_NAME_BYTES: Final = 255
_GRAIN: Final = 16
"""A ttl is looked at in so many steps: what is written again within one of them leaves its look where it is."""

Pair = tuple[int | None, Any]
"""When it was written, epoch ms or None, and what."""


@dataclass(frozen=True)
class KeptStore:
    """A store with a name, of each key of a `process()`.

    Args:
        ttl_ms: for how long after it was written something is there; None for ever.
    """

    kind: Kind
    name: str
    ttl_ms: int | None = None

    @classmethod
    def of(cls, kind: Kind, name: object, ttl: object) -> KeptStore:
        """What `value_state`, `list_state` or `map_state` was asked for.

        Raises:
            ConfigurationError: the name cannot be an attribute, or the ttl is no duration.
        """
        method = f"{kind}_state()"
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_") or name in _TAKEN:
            raise ConfigurationError(
                f"{method} got {name!r}: give a name that the function can write behind 'state.', such as "
                f"{method[:-1]}'seen'), and none of {', '.join(sorted(_TAKEN))}."
            )
        if len(name.encode()) > _MAX_NAME_BYTES:
            raise ConfigurationError(f"{method} got a name of {len(name)} letters: give a shorter one.")
        return cls(kind, name, None if ttl is None else duration_ms(f"{method[:-1]}ttl=...)", ttl))

    def key(self, group: bytes, entry: bytes = b"") -> bytes:
        """Where it lies."""
        name = self.name.encode()
        return b"".join((_KINDS[self.kind], bytes([len(name)]), name, _LENGTH.pack(len(group)), group, entry))

    def range_of(self, group: bytes) -> tuple[bytes, bytes]:
        """From which key to which all of it lies, of a map its entries."""
        begin = self.key(group)
        # Keys of other groups are not longer by what follows: the group's length stands before it.
        return begin, begin + b"\xff"

    def alive(self, pairs: Iterable[Pair], now_ms: int) -> list[Pair]:
        """Those whose ttl is not over."""
        ttl = self.ttl_ms
        return [pair for pair in pairs if ttl is None or pair[0] is None or pair[0] + ttl > now_ms]

    def look_ms(self, pairs: Iterable[Pair]) -> int | None:
        """When the first of some is over, or a little later; None where none ever is."""
        written = [pair[0] for pair in pairs if pair[0] is not None]
        if self.ttl_ms is None or not written:
            return None
        grain = max(1, self.ttl_ms // _GRAIN)
        return -(-(min(written) + self.ttl_ms) // grain) * grain


def value_state(name: str, ttl: str | None = None) -> KeptStore:
    """A store of one value for each key, for ``process(stores=...)``.

    Args:
        name: the function has it as ``state.<name>``, a `NamedValue`.
        ttl: for how long after it was written it is there, by the watermark of its task, such as ``"1 day"``; None for
            ever. It needs a stream with an event time.
    """
    return KeptStore.of("value", name, ttl)


def list_state(name: str, ttl: str | None = None) -> KeptStore:
    """A store of one list for each key: a `ListState`. Each element has its own ttl; see `value_state`.

    It is one record of the changelog, and so no larger than its ``max.message.bytes``.
    """
    return KeptStore.of("list", name, ttl)


def map_state(name: str, ttl: str | None = None) -> KeptStore:
    """A store of one map for each key: a `MapState`. Each entry is a record and has its own ttl; see `value_state`."""
    return KeptStore.of("map", name, ttl)


class StoredKey(NamedTuple):
    """A key of the store that is no group."""

    kind: Kind
    name: str
    group: bytes
    entry: bytes


def stored_key(key: bytes) -> StoredKey | None:
    """What `KeptStore.key` made; None of another key."""
    kind = next((kind for kind, prefix in _KINDS.items() if key.startswith(prefix)), None)
    if kind is None:
        return None
    at = _HEAD + 1 + key[_HEAD]
    begin = at + _LENGTH.size
    end = begin + _LENGTH.unpack_from(key, at)[0]
    return StoredKey(kind, key[_HEAD + 1 : at].decode(), key[begin:end], key[end:])


def timed_key(prefix: bytes, time_ms: int, target: bytes) -> bytes:
    """Where a timer or a look lies."""
    return prefix + time_prefix(time_ms) + target


def time_and_target(key: bytes) -> tuple[int, bytes]:
    """The inverse of `timed_key`."""
    return time_of(key[_HEAD:]), key[_HEAD + PREFIX_BYTES :]


def group_of(key: bytes) -> bytes:
    """The group that a key of the store is of."""
    if not key.startswith(BESIDE_GROUPS):
        return key
    if (found := stored_key(key)) is not None:
        return found.group
    target = time_and_target(key)[1]
    return group_of(target) if key.startswith(EXPIRY) else target


class Moment(NamedTuple):
    """When a call is.

    Args:
        now_ms: what is over by then is gone; `NO_WATERMARK` before there is a time.
        written_ms: what it writes is of then.
    """

    now_ms: int
    written_ms: int


class KeptPairs:
    """What one store holds of one key, at a moment.

    Args:
        look: has a key of the store looked at, at a time; or not any more.
    """

    def __init__(
        self,
        state: OpenState,
        store: KeptStore,
        group: bytes,
        moment: Moment,
        look: Callable[[int, bytes, bytes | None], None],
    ) -> None:
        self._state, self._store, self._group, self._moment, self._look = state, store, group, moment, look

    def read(self, entry: bytes = b"") -> list[Pair]:
        """What is there, and not over."""
        raw = self._state.get(self._store.key(self._group, entry))
        return [] if raw is None else self._store.alive(decode_state(raw), self._moment.now_ms)

    def write(self, pairs: list[Pair], entry: bytes = b"") -> None:
        """Replace it, and look at it again when it may be over."""
        store, key = self._store, self._store.key(self._group, entry)
        old = self._state.get(key)
        before = None if old is None else store.look_ms(decode_state(old))
        self._state.put(key, encode_state([list(pair) for pair in pairs]) if pairs else None)
        after = store.look_ms(pairs)
        if before == after:
            return
        if before is not None:
            self._look(before, key, None)
        if after is not None:
            self._look(after, key, SET)

    def pair(self, value: Any) -> Pair:
        """A value that is written now."""
        if value is None:
            raise ValueError(f"{self._store.name!r} got None: clear() or remove_key() deletes.")
        return (None if self._store.ttl_ms is None else self._moment.written_ms, value)

    def entries(self) -> Iterator[tuple[bytes, Any]]:
        """Of a map, its entries that are not over, in the order of their keys' bytes."""
        begin, end = self._store.range_of(self._group)
        for key, raw in self._state.range(begin, end):
            for _, value in self._store.alive(decode_state(raw), self._moment.now_ms):
                yield key[len(begin) :], value


class _OneRecord:
    """What of a key is one record of the store."""

    def __init__(self, kept: KeptPairs) -> None:
        self._kept = kept

    def exists(self) -> bool:
        """Whether it holds anything."""
        return bool(self._kept.read())

    def clear(self) -> None:
        """Delete it."""
        self._kept.write([])


class NamedValue(_OneRecord):
    """One value of a key, with the words of PySpark's ``ValueState``."""

    def get(self) -> Any:
        """The value, or None. Mutating it without `update` changes nothing."""
        pairs = self._kept.read()
        return pairs[0][1] if pairs else None

    def update(self, value: Any) -> None:
        """Replace it; its ttl begins anew."""
        self._kept.write([self._kept.pair(value)])


class ListState(_OneRecord):
    """A list of a key, with the words of PySpark's ``ListState``."""

    def get(self) -> list[Any]:
        """Its values, in their order."""
        return [value for _, value in self._kept.read()]

    def put(self, values: Iterable[Any]) -> None:
        """Replace all of them; their ttl begins anew."""
        self._kept.write([self._kept.pair(value) for value in values])

    def append_value(self, value: Any) -> None:
        """Add one at the end."""
        self._kept.write([*self._kept.read(), self._kept.pair(value)])

    def append_list(self, values: Iterable[Any]) -> None:
        """Add some at the end."""
        self._kept.write([*self._kept.read(), *map(self._kept.pair, values)])


class MapState:
    """A map of a key, with the words of PySpark's ``MapState``: each entry is read and written by itself."""

    def __init__(self, kept: KeptPairs) -> None:
        self._kept = kept

    def exists(self) -> bool:
        """Whether it holds anything."""
        return next(self._kept.entries(), None) is not None

    def contains_key(self, key: Any) -> bool:
        """Whether there is an entry of a key."""
        return bool(self._kept.read(encode_state(key)))

    def get_value(self, key: Any) -> Any:
        """The value of a key, or None."""
        pairs = self._kept.read(encode_state(key))
        return pairs[0][1] if pairs else None

    def update_value(self, key: Any, value: Any) -> None:
        """Replace or add an entry; its ttl begins anew."""
        self._kept.write([self._kept.pair(value)], encode_state(key))

    def iterator(self) -> Iterator[tuple[Any, Any]]:
        """The entries as they are now, in an order that is always the same."""
        return iter([(decode_state(entry), value) for entry, value in self._kept.entries()])

    def keys(self) -> Iterator[Any]:
        """Their keys."""
        return (key for key, _ in self.iterator())

    def values(self) -> Iterator[Any]:
        """Their values."""
        return (value for _, value in self.iterator())

    def remove_key(self, key: Any) -> None:
        """Delete an entry."""
        self._kept.write([], encode_state(key))

    def clear(self) -> None:
        """Delete all of them."""
        for entry, _ in list(self._kept.entries()):
            self._kept.write([], entry)


class Timers:
    """The timers of a key, of event time or of the clock.

    Args:
        now: epoch ms; `NO_WATERMARK` before there is a time.
        fired_ms: in the call of a timer, its time: those that it sets are later. None in the call of a row.
        put: keeps one, or forgets it.
        without: why none can be set; empty where they can.
    """

    def __init__(self, now: int, fired_ms: int | None, put: Callable[[int, bytes | None], None], without: str) -> None:
        self._now, self._fired_ms, self._put, self._without = now, fired_ms, put, without

    @property
    def now_ms(self) -> int | None:
        """How far it is, epoch ms; None before there is a time.

        Of event time the watermark at the row, and in the call of a timer its time; of the clock that of the
        micro-batch.
        """
        return None if self._now == NO_WATERMARK else self._now

    def at(self, when: int | dt.datetime) -> None:
        """Have the function be called for this key at a time; again for the same time changes nothing.

        Args:
            when: epoch ms, or a datetime with a zone. One that is over already fires right after this call.
        """
        time_ms = epoch_ms(when)
        if self._without:
            raise ValueError(self._without)
        if self._fired_ms is not None and time_ms <= self._fired_ms:
            raise ValueError(
                f"a timer for {time_ms} was set in the call of the one for {self._fired_ms}: it would fire at once, "
                "and for ever; set a later one"
            )
        self._put(time_ms, SET)

    def delete(self, when: int | dt.datetime) -> None:
        """Take a timer back, if there is one."""
        self._put(epoch_ms(when), None)


def epoch_ms(when: object, what: str = "a timer") -> int:
    """A time in epoch ms.

    Raises:
        ValueError: it is none; the message says that `what` got it.
    """
    if isinstance(when, dt.datetime) and when.tzinfo is not None:
        return (when - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    if isinstance(when, int) and not isinstance(when, bool) and abs(when) < -NO_WATERMARK:
        return when
    raise ValueError(f"{what} got {when!r}: give a whole number, epoch ms, or a datetime with a zone")


class KeyState(ValueState):
    """What a function of `process()` gets as `state`: the key's value, and by name its stores; and its timers."""

    timers: Timers
    """Of event time; see ``process(on_timer=...)``."""
    clock: Timers
    """Of the clock; see ``process(on_clock=...)``."""

    def __init__(
        self, value: Any, stores: Iterable[tuple[KeptStore, KeptPairs]], timers: Timers, clock: Timers
    ) -> None:
        super().__init__(value)
        self.timers, self.clock = timers, clock
        for store, kept in stores:
            setattr(self, store.name, _HANDLES[store.kind](kept))


_HANDLES: Final[dict[Kind, Callable[[KeptPairs], object]]] = {
    "value": NamedValue,
    "list": ListState,
    "map": MapState,
}
_TAKEN: Final = frozenset({name for name in dir(ValueState) if name[0] != "_"} | {"timers", "clock", "value"})


def check_stores(stores: object) -> tuple[KeptStore, ...]:
    """The stores that `process()` was given.

    Raises:
        ConfigurationError: they are none, or two have one name.
    """
    expected = 'a list of stores, such as stores=[map_state("seen")]'
    check_kind("process() got stores=", stores, (list, tuple), expected)
    assert isinstance(stores, (list, tuple))
    for store in stores:
        check_kind("process() got in stores=", store, KeptStore, expected)
    names = [store.name for store in stores]
    if len(set(names)) != len(names):
        raise ConfigurationError(
            f"process() got the stores {', '.join(map(repr, names))}: give each a name of its own."
        )
    return tuple(stores)
