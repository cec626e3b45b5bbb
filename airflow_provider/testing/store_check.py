"""Checks that a store keeps what a task relies on."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NoReturn

from airflow_provider.errors import StatefulStreamsError
from airflow_provider.state.digest import digest_of
from airflow_provider.state.in_memory import InMemory
from airflow_provider.state.kind import AnyStore, StoreKind
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.state_store import StateStore
from airflow_provider.streaming.functions import sum as total
from airflow_provider.streaming.language.stream import stream
from airflow_provider.streaming.operations.process import ValueState
from airflow_provider.streaming.planner.job import StatefulJob
from airflow_provider.streaming.terms.windows import window
from airflow_provider.testing.job_tester import JobTester
from airflow_provider.testing.store_crash import crashes_of
from airflow_provider.testing.store_writes import KEYS, STORE, State, Writes, writes_in

_WRITES: Final = 40
_REOPENED_EACH: Final = 5
_SCANNED_EACH: Final = 4
_BATCHES: Final = 16


def check_store(
    store: type[StateStore] | InMemory | RocksDBOptions, seed: int | None = None, crashes: int = 150
) -> None:
    """Check that a store of your own does what a task relies on (`airflow_provider.streaming.StateStore`).

    It is written, read and opened again; processes are killed at each step of its writes; and a job runs on it, through
    restarts, restores of a lost store and promotions of a standby, with certification. Some seconds.

    Args:
        store: the class; or one of the package's own kinds.
        seed: of what is written; None for another one each time, which a failure names.
        crashes: how many processes are killed.

    Raises:
        AssertionError: it does something else; says in one line what.
        ConfigurationError: it is no class that can keep a store.
    """
    kind = StoreKind.of("check_store() got ", store)
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    check = _Check(kind, Writes(seed))
    with tempfile.TemporaryDirectory(prefix="check-store-") as folder:
        check.reads(Path(folder) / "reads")
        check.crashes(Path(folder) / "crashes", crashes)
        check.job(store)


class _Check:
    def __init__(self, kind: StoreKind, writes: Writes) -> None:
        self._kind, self._writes = kind, writes
        self._when = "at first"

    def reads(self, folder: Path) -> None:
        """What is written is read, then and after it was opened again."""
        random_ = random.Random(self._writes.seed)
        store = self._opened(folder)
        try:
            if store.position is not None or store.holds_data(STORE):
                self._fail("it holds something, and its folder is new")
            for number in range(_WRITES):
                self._when = f"in write {number + 1}"
                with self._naming_errors():
                    scan = store.scan(STORE) if number % _SCANNED_EACH == 0 else None
                    self._writes.apply(store, number)
                    self._when = f"after write {number + 1}"
                    self._compare(store, number + 1)
                    self._compare_reads(store, self._writes.states[number + 1], random_)
                    state = self._writes.states[number]
                    if scan is not None and scan.result() != digest_of(state.keys(), state.values()):
                        self._fail("a scan that began before the write does not find what was there before")
                    if number % _REOPENED_EACH == 0:
                        store.close()
                        self._when = f"opened again after write {number + 1}"
                        store = self._opened(folder)
                        if store.position is None:  # it may keep nothing, and is restored
                            self._compare(store, 0)
                            for again in range(number + 1):
                                self._writes.apply(store, again)
                        self._compare(store, number + 1)
        finally:
            store.close()

    def crashes(self, folder: Path, crashes: int) -> None:
        """A killed process leaves a write whole, or nothing of it."""
        step = 1
        with crashes_of(self._kind, self._writes.seed) as process:
            for _ in range(crashes):
                killed = process.write(folder, step)
                step = step + 1 if killed else 1
                self._when = "after its process was killed in a write" if killed else "after a process has ended"
                with closing(self._opened(folder)) as store, self._naming_errors():
                    number = writes_in(store)
                    self._writes.at(number)
                    self._compare(store, number)

    def job(self, store: Any) -> None:
        """A job on it comes to what it comes to on RocksDB."""
        random_ = random.Random(self._writes.seed)
        with JobTester(_job(RocksDBOptions())) as expected, _CertifyingTester(_job(store)) as tester:
            for number in range(_BATCHES):
                rows = [
                    {"key": random_.choice("abcdef"), "number": number, "at": 1000 * random_.randrange(number + 1)}
                    for _ in range(3)
                ]
                expected.pipe_inputs(rows)
                self._when = f"in micro-batch {number + 1} of a job"
                with self._naming_errors():
                    tester.pipe_inputs(rows)
                    happens = random_.choice(_FAULTS)
                    self._when = f"in a job, after {happens}"
                    _HAPPENINGS[happens](tester)
                    for name in ("counted", "windowed"):
                        if tester.states(name) != expected.states(name):
                            self._fail(f"the state is {tester.states(name)}, and should be {expected.states(name)}")
                    for task, committed, found in tester.digests():
                        if committed != found:
                            self._fail(
                                f"the store of task {task} is not certified: its pairs are not what was committed"
                            )

    def _opened(self, folder: Path) -> AnyStore:
        with self._naming_errors():
            return self._kind.open(folder, STORE)

    def _compare(self, store: AnyStore, number: int) -> None:
        """See whether a store stands for so many writes, and holds what they come to."""
        if writes_in(store) != number:
            self._fail(f"its position is that of write {writes_in(store)}, and should be that of write {number}")
        state, pairs = self._writes.states[number], list(store.items(STORE))
        keys = [key for key, _ in pairs]
        for one, other in pairwise(keys):
            if one >= other:
                self._fail(f"range() gives the key {one!r} before {other!r}: keys come in the order of their bytes")
        found = dict(pairs)
        if found == state:
            return
        others = [at for at, other in enumerate(self._writes.states) if other == found]
        if others:
            self._fail(
                f"it holds the pairs of write {others[0]} with the position of write {number}: a position is kept with "
                "its pairs, in one write"
            )
        for key in sorted(found.keys() | state.keys()):
            if found.get(key) != state.get(key):
                self._fail(self._about(key, found.get(key), number))

    def _about(self, key: bytes, value: bytes | None, number: int) -> str:
        states = self._writes.states
        now = states[number].get(key)
        if now is None and any(state.get(key) == value for state in states[:number]):
            return f"the deleted key {key!r} came back with {value!r}"
        if any(state.get(key) == value for state in states[number + 1 :]):
            return f"the key {key!r} is of a later write than its position, {number}: a write is all or nothing"
        return f"the key {key!r} has {value!r}, and should have {now!r}"

    def _compare_reads(self, store: AnyStore, state: State, random_: random.Random) -> None:
        keys = [*random_.sample(KEYS, 20), b"", b"\x00"]
        for key, value in zip(keys, store.get_many(STORE, keys), strict=True):
            if value != state.get(key):
                self._fail(f"get() says {value!r} of the key {key!r}, and should say {state.get(key)!r}")
        begin, end = random_.sample(KEYS, 2)
        expected = [(key, value) for key, value in state.items() if begin <= key < end]
        if list(store.range(STORE, begin, end)) != expected:
            self._fail(f"range() from {begin!r} to {end!r} gives others than the {len(expected)} pairs there")

    @contextlib.contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except StatefulStreamsError as error:
            self._fail(f"it raises {type(error).__name__}: {' '.join(str(error).split())}")

    def _fail(self, what: str) -> NoReturn:
        raise AssertionError(f"{self._kind.name}: {self._when}, {what} (seed={self._writes.seed}).") from None


class _CertifyingTester(JobTester):
    """A tester that scans its stores."""

    def digests(self) -> list[tuple[str, int, int | None]]:
        """By task, the digest that was committed, and what a scan of its store finds."""
        return [
            (str(task.id), int(task.digest, 16), task.replica.scan().result())
            for task in self._open_tasks()
            if task.digest is not None
        ]


_HAPPENINGS: Final[Mapping[str, Callable[[JobTester], None]]] = {
    "nothing": lambda _: None,
    "a restart": lambda tester: tester.restart(),
    "a restore of a lost store": lambda tester: tester.restart(store="empty"),
    "a promotion of the standby": lambda tester: tester.promote_standby(),
}
_FAULTS: Final = ("nothing", *_HAPPENINGS)


def _count(key: str, rows: list[dict[str, Any]], state: ValueState) -> None:
    number = (state.get() or 0) + len(rows)
    if number % 4 == 0:
        state.clear()
    else:
        state.update(number)


def _job(kind: Any) -> StatefulJob:
    rows = stream("rows", schema="key STRING, number BIGINT, at BIGINT", event_time="at", watermark="3 seconds")
    counted = rows.group_by("key").process(_count, ["number"], name="counted")
    windowed = rows.group_by("key", window("at", "2 seconds")).aggregate(total("number").alias("sum"))
    return StatefulJob("checked", counted, windowed.sink("windowed")).options(
        stores={"counted": kind, "windowed": kind}
    )
