"""What a topic does not take: results that are too large, and which records are to blame for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.error_text import bounded
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.operations.batch import Changes, FunctionError, KnownState, Pair, StateReader, add_named

_KEY_CHARS: Final = 200


class TooLargeError(FunctionError):
    """What a key's rows come to is larger than a topic takes."""


@dataclass(frozen=True)
class TopicLimit:
    """How large a record may be.

    Args:
        bytes: of key and value together.
    """

    topic: str
    bytes: int

    def excess(self, what: str, size: int) -> str | None:
        """Why something does not fit; None where it does."""
        if size <= self.bytes:
            return None
        return (
            f"its {what} is {size:,} bytes, and {self.topic!r} takes {self.bytes:,} at the most: raise "
            "max.message.bytes of that topic and deploy again, or let the job keep less"
        )


@dataclass(frozen=True)
class Limits:
    """Those of a stage.

    Args:
        output: of the sink that takes the least; None where there is none.
        named: the same by output with a name, of those that are written.
    """

    state: TopicLimit
    output: TopicLimit | None
    named: Mapping[str, TopicLimit] = field(default_factory=dict)

    def of_state(self, changes: Changes) -> dict[bytes, str]:
        """By key, why its new state does not fit."""
        return _excesses("state", self.state, changes.state)

    def of_output(self, pairs: Sequence[tuple[bytes, bytes | None]]) -> dict[bytes, str]:
        """By key, why its output does not fit."""
        return {} if self.output is None else _excesses("output", self.output, pairs)

    def of(self, changes: Changes) -> dict[bytes, str]:
        """By key, why what became of it does not fit."""
        large = self.of_state(changes)
        for limit, pairs in self._written(changes):
            large |= _excesses("output", limit, pairs)
        return large

    def _written(self, changes: Changes) -> Iterator[tuple[TopicLimit, Sequence[Pair]]]:
        """What goes into the job's topics, with the limit of each."""
        if self.output is not None:
            yield self.output, changes.output
        for name, limit in self.named.items():
            yield limit, changes.named.get(name, ())

    def check_results(self, changes: Changes) -> None:
        """Refuse what comes out, or is kept, as time goes on, where its topic does not take it.

        What it is made of is committed, most often: no record of the batch is to blame, and none can be left out for
        it.
        """
        for limit, pairs in (*self._written(changes), (self.state, changes.state)):
            topic, most = limit.topic, limit.bytes
            for key, value in pairs:
                size = len(key) + (0 if value is None else len(value))
                if size > most:
                    name = bounded(repr(key.decode("utf-8", "replace")), _KEY_CHARS)
                    raise ConfigurationError(
                        f"The result {name} is {size:,} bytes, and {topic!r} takes {most:,} at the most. Nothing was "
                        "written, and no single record of the input is to blame: it is made of all that its key and "
                        f"window have had. Raise max.message.bytes of {topic!r} and deploy again: the task goes on "
                        "where it stopped, and writes it."
                    )


def _excesses(what: str, limit: TopicLimit, pairs: Sequence[tuple[bytes, bytes | None]]) -> dict[bytes, str]:
    most = limit.bytes
    # Every row of every batch comes by here.
    large = [(key, len(key) + len(value)) for key, value in pairs if value is not None and len(key) + len(value) > most]
    return {key: limit.excess(what, size) or "" for key, size in large}


def too_large(rows: pa.Table, at: int, reason: str, *, alone: bool = False) -> TooLargeError:
    """The error of a row."""
    key: bytes = rows.column("__key")[at].as_py()
    return TooLargeError(rows.column("__offset")[at].as_py(), key.decode("utf-8", "replace"), reason, alone=alone)


def first_too_large(rows: pa.Table, large: Mapping[bytes, str]) -> TooLargeError:
    """The error of the first row of a key whose result is too large."""
    keys = rows.column("__key")
    at = pc.index(pc.is_in(keys, value_set=pa.array(list(large), pa.binary())), value=True).as_py()
    if at < 0:
        # It came earlier, and comes out by what time these rows make it.
        key, reason = next(iter(large.items()))
        return TooLargeError(rows.column("__offset")[0].as_py(), key.decode("utf-8", "replace"), reason)
    return too_large(rows, at, large[keys[at].as_py()])


def shared_too_large(
    rows: pa.Table, large: Mapping[bytes, str], groups: Callable[[Sequence[bytes]], Sequence[bytes]]
) -> TooLargeError:
    """The same where a result is made of many rows: its key may be one of the store, and none of theirs."""
    known = set(rows.column("__key").to_pylist())
    return first_too_large(rows, {key if key in known else groups([key])[0]: why for key, why in large.items()})


def row_by_row(
    merge: Callable[[pa.Table, StateReader], Changes],
    rows: pa.Table,
    known: Mapping[bytes, bytes | None],
    changes: Changes,
    limits: Limits,
    large: Mapping[bytes, str],
) -> Changes:
    """Leave out those rows of the keys whose result is too large. No function can rely on where batches end.

    Args:
        merge: the operation, which leaves out what makes the user's function raise.
        large: by key, why its result is too large.
    """
    state = dict(changes.state)
    kept = [at for at, pair in enumerate(changes.output) if pair[0] not in large]
    output = [changes.output[at] for at in kept]
    output_offsets = [changes.output_offsets[at] for at in kept] if changes.output_offsets else []
    named = {name: [pair for pair in pairs if pair[0] not in large] for name, pairs in changes.named.items()}
    failed = list(changes.failed)
    dropped = Counter[str]()
    if changes.dropped:
        others = rows.filter(pc.invert(pc.is_in(rows.column("__key"), value_set=pa.array(list(large), pa.binary()))))
        if others.num_rows:
            dropped.update(merge(others, KnownState(known)).dropped)
    for key in large:
        state.pop(key, None)
        of_key = rows.filter(pc.equal(rows.column("__key"), pa.scalar(key, pa.binary())))
        offsets = set(of_key.column("__offset").to_pylist())
        text = key.decode("utf-8", "replace")
        failed = [error for error in failed if error.offset not in offsets or error.key != text]
        # A table's row has a key of the list of deletions beside its own.
        reader, now = KnownState(known), dict[bytes, bytes | None]()
        for at in range(of_key.num_rows):
            row = of_key.slice(at, 1)
            one = merge(row, reader)
            reason = limits.of(one).get(key)
            failed += one.failed if reason is None else [too_large(row, 0, reason)]
            if reason is None and not one.failed:
                output += one.output
                add_named(named, one.named)
                output_offsets += one.output_offsets
                dropped.update(one.dropped)
                now.update(one.state)
                reader.update(one.state)
        state |= {of: value for of, value in now.items() if value != known.get(of)}
    ordered = [(key, state[key]) for key in known if key in state]
    failed.sort(key=lambda error: error.offset)
    return Changes(ordered, output, failed, dict(dropped), output_offsets, named)
