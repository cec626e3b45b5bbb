"""What the cycle collector may look at in a Python worker.

PySpark's daemon collects after every task, over everything that the imports left: 25 ms a call. And a loop that makes a
million short-lived messages a second has the collector look at them again and again, though reference counts free them.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["freeze", "no_collection"]


def freeze() -> None:
    """Never look again at what exists by now: modules, functions, classes. To be called once, after the imports."""
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Collect nothing inside the block: for a bounded piece of work after which the collector gets its turn."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
