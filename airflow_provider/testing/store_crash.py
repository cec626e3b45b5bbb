"""Kills processes in the middle of a store's writes. Run as a process of its own, which opens no store itself.

So it has no threads, and what it forks begins like a new process, without the time that one takes to start.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.state.kind import StoreKind
from airflow_provider.testing.store_writes import STORE, Writes, writes_in


class Crashes:
    """Has processes write into the store in a folder, and die there."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def write(self, folder: Path, step: int) -> bool:
        """A process opens the store, does its next write, closes it, and is killed at a step of the two.

        Args:
            step: of Python: calls and returns, also of what is written in C. The first is 1.

        Returns:
            Whether it had so many; else it ended by itself.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"%d %s\n" % (step, os.fsencode(folder)))
        self._process.stdin.flush()
        if not (answer := self._process.stdout.readline()):
            raise RuntimeError("The process that has others killed has ended: its error output says why.")
        return answer == b"killed\n"


@contextmanager
def crashes_of(kind: StoreKind, seed: int) -> Iterator[Crashes]:
    """A process that has others killed."""
    # Not by -m, which would load this module twice.
    words = [sys.executable, "-c", f"from {__name__} import main; main()", to_json(kind).decode(), str(seed)]
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    ) as process:
        try:
            yield Crashes(process)
        finally:
            process.kill()


def _write(kind: StoreKind, seed: int, folder: Path, step: int) -> None:
    store = kind.open(folder, STORE)
    number, writes = writes_in(store), Writes(seed)
    writes.at(number)

    def count(_: FrameType, __: str, ___: Any) -> None:
        nonlocal step
        step -= 1
        if step == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    writes.apply(store, number)
    store.close()
    sys.setprofile(None)


def main() -> None:
    """For each line that comes, a step and a folder: fork, write, and say how that ended."""
    kind, seed = from_json(sys.argv[1], StoreKind), int(sys.argv[2])
    for line in sys.stdin.buffer:
        step, _, folder = line.rstrip(b"\n").partition(b" ")
        if (child := os.fork()) == 0:
            try:
                _write(kind, seed, Path(os.fsdecode(folder)), int(step))
            finally:
                os._exit(0)  # an error is seen again where the store is looked at
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        sys.stdout.buffer.write(b"killed\n" if killed else b"ended\n")
        sys.stdout.buffer.flush()
