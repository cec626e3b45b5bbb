"""Checks that a store keeps what a task relies on."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.state.digest import digest_of
from airflow_provider.state.in_memory import InMemory
from airflow_provider.state.kind import AnyStore, StoreKind
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.position import ChangelogPosition, Position
from airflow_provider.state.state_store import StateStore
from airflow_provider.state.time_segments import time_prefix
from airflow_provider.streaming.functions import sum as total
from airflow_provider.streaming.language.stream import stream
from airflow_provider.streaming.operations.process import ValueState
from airflow_provider.streaming.planner.job import StatefulJob
from airflow_provider.streaming.terms.windows import window
from airflow_provider.testing.batching import FAULTS
from airflow_provider.testing.job_tester import JobTester

_STORE: Final = "checked"
_TIMES: Final = range(-2, 8)
_ENDINGS: Final = (b"", b"\x00", b"\x00\x00", b"a", b"ab", b"b", b"B", b"\x7f", b"\x80", b"\xff", b"\xff\xff")
_KEYS: Final = tuple(time_prefix(time) + ending for time in _TIMES for ending in _ENDINGS)
_MANY: Final = 2_500
"""More than are read at once."""
_MANY_AT: Final = 12
_EXPIRES_EACH: Final = 7
_WRITES: Final = 40
_REOPENED_EACH: Final = 5
_SCANNED_EACH: Final = 4
_BATCHES: Final = 16
_WRONG: Final = 3
"""The exit code where a store does something else than it should; the last line of the output says what."""

_State = dict[bytes, bytes]


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
    check = _Check(kind, seed)
    with tempfile.TemporaryDirectory(prefix="check-store-") as folder:
        check.reads(Path(folder) / "reads")
        _check_crashes(kind, seed, Path(folder) / "crashes", crashes)
        check.job(store)


class _Writes:
    """The writes of a seed, the same in each process, and what a store holds after each; after none, nothing."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.states: list[_State] = [{}]
        self._writes: list[tuple[Sequence[tuple[bytes, bytes | None]], int | None]] = []

    def make(self, number: int) -> None:
        """As many at least."""
        for made in range(len(self._writes), number):
            randomness = random.Random(f"{self.seed} {made}")
            changes = list(_changes(randomness, made, self.states[-1]))
            expired = randomness.choice(_TIMES) if made % _EXPIRES_EACH == _EXPIRES_EACH - 1 else None
            self._writes.append((changes, expired))
            first = b"" if expired is None else time_prefix(expired)
            after = sorted({**self.states[-1], **dict(changes)}.items())
            self.states.append({key: value for key, value in after if value is not None and key >= first})

    def apply(self, store: AnyStore, number: int) -> None:
        """Have a store do the write after so many others."""
        self.make(number + 1)
        changes, expired = self._writes[number]
        position = Position(changelogs={_STORE: ChangelogPosition(offset=number + 1)}, commit=b"%d" % number)
        store.write({_STORE: changes}, position, {} if expired is None else {_STORE: expired})


def _changes(randomness: random.Random, number: int, state: _State) -> Iterator[tuple[bytes, bytes | None]]:
    for key in randomness.sample(_KEYS, 5):
        yield key, randomness.choice((b"", b"%d" % number, b"%d" % number * 40))
    there = list(state)
    for key in randomness.sample(there, min(2, len(there))):
        yield key, None
    # Of one key several: the last counts, and what is not there is deleted.
    again = randomness.choice(_KEYS)
    yield again, b"first"
    yield again, None if number % 2 else b"last of %d" % number
    if number == _MANY_AT:
        for at in range(_MANY):
            yield time_prefix(max(_TIMES)) + b"many%05d" % at, b"%d" % at


def _writes_in(store: AnyStore) -> int:
    """How many writes a store says that it stands for."""
    return 0 if store.position is None else store.position.changelogs[_STORE].offset


class _Check:
    def __init__(self, kind: StoreKind, seed: int) -> None:
        self._kind, self._writes = kind, _Writes(seed)
        self._when = "at first"

    def reads(self, folder: Path) -> None:
        """What is written is read, then and after it was opened again."""
        random_ = random.Random(self._writes.seed)
        store = self._opened(folder)
        try:
            if store.position is not None or store.holds_data(_STORE):
                self._fail("it holds something, and its folder is new")
            for number in range(_WRITES):
                self._when = f"in write {number + 1}"
                with self._naming_errors():
                    scan = store.scan(_STORE) if number % _SCANNED_EACH == 0 else None
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

    def crash(self, folder: Path, step: int, killed: bool) -> None:
        """See whether what lies there is so many writes, each whole; then write, and be killed at a step of that.

        Args:
            step: of Python: calls and returns, also of what is written in C. The first is 1; 0 for none.
            killed: whether the process before was.
        """
        self._when = "after its process was killed in a write" if killed else "after a process has ended"
        store = self._opened(folder)
        number = _writes_in(store)

        def count(_: FrameType, __: str, ___: Any) -> None:
            nonlocal step
            step -= 1
            if step == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        with self._naming_errors():
            self._compare(store, number)
            self._when = f"in write {number + 1}"
            sys.setprofile(count)
            self._writes.apply(store, number)
            store.close()
            sys.setprofile(None)

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
                    if (fault := random_.choice(["", *FAULTS])) != "":
                        self._when = f"in a job, after a {fault}"
                        FAULTS[fault](tester)
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
            return self._kind.open(folder, _STORE)

    def _compare(self, store: AnyStore, number: int) -> None:
        """See whether a store stands for so many writes, and holds what they come to."""
        self._writes.make(number + 1)
        if _writes_in(store) != number:
            self._fail(f"its position is that of write {_writes_in(store)}, and should be that of write {number}")
        state, pairs = self._writes.states[number], list(store.items(_STORE))
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

    def _compare_reads(self, store: AnyStore, state: _State, random_: random.Random) -> None:
        keys = [*random_.sample(_KEYS, 20), b"", b"\x00"]
        for key, value in zip(keys, store.get_many(_STORE, keys), strict=True):
            if value != state.get(key):
                self._fail(f"get() says {value!r} of the key {key!r}, and should say {state.get(key)!r}")
        begin, end = random_.sample(_KEYS, 2)
        expected = [(key, value) for key, value in state.items() if begin <= key < end]
        if list(store.range(_STORE, begin, end)) != expected:
            self._fail(f"range() from {begin!r} to {end!r} gives others than the {len(expected)} pairs there")

    @contextlib.contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except StatefulStreamsError as error:
            self._fail(f"it raises {type(error).__name__}: {' '.join(str(error).split())}")

    def _fail(self, what: str) -> NoReturn:
        raise AssertionError(f"{self._kind.name}: {self._when}, {what} (seed={self._writes.seed}).") from None


def _check_crashes(kind: StoreKind, seed: int, folder: Path, crashes: int) -> None:
    """A killed process leaves a write whole, or nothing of it.

    They are forked from a process that opens no store itself: so it has no threads, and they begin as new ones do,
    without the time that one takes to start.
    """
    # Not by -m, which would load this module twice.
    words = [sys.executable, "-c", f"from {__name__} import crash_in_turn; crash_in_turn()"]
    words += [to_json(kind).decode(), str(seed), str(folder), str(crashes)]
    path = os.pathsep.join(filter(None, sys.path))
    ended = subprocess.run(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}, check=False
    )
    if ended.returncode == _WRONG:
        raise AssertionError(ended.stdout.splitlines()[-1])
    if ended.returncode != 0:
        raise RuntimeError("The process that has others killed has ended: its error output says why.")


def crash_in_turn() -> None:
    """What `_check_crashes` runs in a process of its own."""
    kind, seed, folder, crashes = from_json(sys.argv[1], StoreKind), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    check, step, killed = _Check(kind, seed), 1, False
    gc.freeze()  # or what is collected in each process is all that was imported
    for left in range(int(crashes), -1, -1):  # the last one only looks at what the one before left
        ended = _forked(partial(check.crash, folder, step if left else 0, killed))
        killed = ended == -signal.SIGKILL
        step = step + 1 if killed else 1
        if ended != 0 and not killed:
            sys.exit(ended)


def _forked(do: Callable[[], None]) -> int:
    """The exit code of a process that does it."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            do()
            code = 0
        except AssertionError as error:
            print(error, flush=True)
            code = _WRONG
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _CertifyingTester(JobTester):
    """A tester that scans its stores."""

    def digests(self) -> list[tuple[str, int, int | None]]:
        """By task, the digest that was committed, and what a scan of its store finds."""
        return [
            (str(task.id), int(task.digest, 16), task.replica.scan().result())
            for task in self._open_tasks()
            if task.digest is not None
        ]


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
