"""Something that goes on while a test looks at something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def again_and_again(step: Callable[[], object], pause_s: Callable[[], float]) -> Iterator[None]:
    """A step is done all the while, in a thread of its own; what it raises is raised when the block ends.

    Args:
        step: what is done.
        pause_s: how long it is waited before each, in seconds.
    """
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(pause_s()):
            step()

    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(go_on)
        try:
            yield
        finally:
            stop.set()
        going.result()
