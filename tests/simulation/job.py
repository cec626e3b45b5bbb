"""The job that is simulated: it numbers each key's records, so that what is left out, doubled or moved is seen.

A key belongs to one partition. Its state is how many records it had and the offset of the last one; each record puts
out its offset, its number, and how many keys the store holds then. So what has to come out follows from the input
alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from tests.simulation import spark
from tests.simulation.disk import StoreOptions
from tests.simulation.product import (
    Changes,
    CompiledJob,
    CompiledStage,
    FunctionError,
    InputSpec,
    Operation,
    SourceSpec,
    StageSpec,
    StoreKind,
    StoreSignature,
    StoreSpec,
)

APPLICATION = "app"
CHANGELOG = "app-state-changelog"
SINK = "out"
STORE = "state"
DELETED_AT = 4
"""Each so manieth record of a key deletes its state: the changelog gets a tombstone, and the count begins anew."""


def after(held: dict[bytes, bytes], key: bytes, offset: int) -> bytes:
    """Change what is held by one more record; returns what that puts out."""
    state = held.pop(key, None)
    count = 1 + (0 if state is None else int(state.partition(b" ")[0]))
    if count < DELETED_AT:
        held[key] = b"%d %d" % (count, offset)
    return b"%d %d %d" % (offset, count, len(held))


@dataclass(frozen=True)
class Ledger(Operation):
    """Numbers each key's records.

    Args:
        bad: partition and offset of what it cannot process, until it is corrected.
    """

    bad: set[tuple[int, int]] = field(default_factory=set, hash=False)
    columns: ClassVar[tuple[str, ...]] = ()

    def signature(self, key_name: str, key_type: Any, schema: Any) -> StoreSignature:
        return StoreSignature(key=key_name, key_type="string", operation="ledger")

    def merge(self, batch: Any, state: Any, tolerant: bool) -> Changes:
        offsets = batch.rows.column("__offset").to_pylist()
        keys = batch.rows.column("__key").to_pylist()
        for number, offset, key in zip(batch.rows.column("__partition").to_pylist(), offsets, keys, strict=True):
            if (number, offset) in self.bad:
                raise FunctionError(offset, key.decode(), "it cannot be processed")
        distinct = list(dict.fromkeys(keys))
        before = dict(zip(distinct, state.get_many(distinct), strict=True))
        held = dict(state.range(b"", b"\xff"))
        output = [(key, after(held, key, offset)) for key, offset in zip(keys, offsets, strict=True)]
        changed = [(key, held.get(key)) for key in distinct if key in held or before[key] is not None]
        return Changes(changed, output)


class Oracle:
    """What has to come of the input."""

    def __init__(self, partitions: int) -> None:
        self.keys: list[list[bytes]] = [[] for _ in range(partitions)]
        """By partition, what the log holds."""
        self._cut: list[dict[int, set[bytes]]] = [{} for _ in range(partitions)]
        """By partition and offset, the keys of what its log has lost."""
        self._states: list[dict[int, dict[bytes, bytes]]] = [{0: {}} for _ in range(partitions)]
        """By partition and offset, the store when all before is processed; of a log that lost something, when it is."""
        self.outputs: dict[bytes, list[bytes]] = {}
        """By key, in order."""

    def add(self, partition: int, key: bytes) -> tuple[int, bytes]:
        """One more record; returns its offset and its value."""
        offset = len(self.keys[partition])
        self.keys[partition].append(key)
        if not self._cut[partition]:
            held = dict(self._states[partition][offset])
            self.outputs.setdefault(key, []).append(after(held, key, offset))
            self._states[partition][offset + 1] = held
        return offset, b""

    def cut(self, partition: int, end: int) -> None:
        """A log has lost its records from an offset on: who has read them, or reads what comes there now, is right."""
        for offset, key in enumerate(self.keys[partition][end:], end):
            self._cut[partition].setdefault(offset, set()).add(key)
        del self.keys[partition][end:]

    def processed(self, partition: int, begin: int, end: int, written: list[tuple[bytes, bytes]]) -> str | None:
        """Take note of what was processed of a log that lost something, by what was put out; says what is wrong."""
        if not self._cut[partition]:
            return None
        held, known = dict(self._states[partition][begin]), self.keys[partition]
        by_offset = {int(value.split(b" ")[0]): (key, value) for key, value in written}
        if sorted(by_offset) != list(range(begin, end)) or len(written) != end - begin:
            return f"puts out what was at {sorted(by_offset)}"
        for offset in range(begin, end):
            key, value = by_offset[offset]
            if key not in self._cut[partition].get(offset, set()) | set(known[offset : offset + 1]):
                return f"puts out {key!r}, which was never at {offset}"
            if (expected := after(held, key, offset)) != value:
                return f"puts out {value!r}, expected {expected!r}"
            self._states[partition][offset + 1] = dict(held)
        return None

    def lost(self, partition: int) -> bool:
        """Whether a log has lost something."""
        return bool(self._cut[partition])

    def state(self, partition: int, offset: int) -> dict[bytes, bytes]:
        """The store when all before an offset is processed."""
        return self._states[partition][offset]


MODEL: Final = StoreKind(rocksdb=StoreOptions())  # type: ignore[arg-type]
"""The model's RocksDB."""


def compiled(partitions: int, standby_delete_retention_ms: int = 86_400_000, timeout_ms: int = 60_000) -> CompiledJob:
    """The job as driver and workers carry it out."""
    operation = Ledger()
    spec = StageSpec(
        application_id=APPLICATION,
        input=InputSpec(topic=spark.SOURCE, key_name="key"),
        operation=operation,
        store=StoreSpec(
            name=STORE,
            changelog=CHANGELOG,
            kind=MODEL,
            delete_retention_ms=standby_delete_retention_ms,
            signature=operation.signature("key", None, None),
        ),
        sink_topic=SINK,
        certify_interval_s=None,
        transaction_timeout_ms=timeout_ms,
    )
    source = SourceSpec(
        application_id=APPLICATION,
        topic=spark.SOURCE,
        schema=None,
        steps=(),
        key_name="key",
        columns=(),
        decoded_by_worker=False,
        keeps_records=False,
        max_offsets_per_trigger=None,
        kafka_options=(),
    )
    return CompiledJob(
        APPLICATION, (CompiledStage(number=0, name="ledger", num_tasks=partitions, source=source, spec=spec),)
    )
