"""Which of our files a piece of work goes through."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import airflow_provider

_PACKAGE = f"{Path(airflow_provider.__file__).parent}/"
_TESTING = f"{_PACKAGE}testing/"


class Trace(NamedTuple):
    """By file, how many calls into it; and how often a call was into another file than the one before."""

    files: dict[str, int]
    changes: int


def trace(work: Callable[[], Any]) -> Trace:
    """What runs in this thread of the package; not what stands for Kafka in a test."""
    called = list[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(_PACKAGE) and not name.startswith(_TESTING):
            called.append(name.removeprefix(_PACKAGE))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    changes = sum(before != after for before, after in pairwise(called))
    return Trace({name: called.count(name) for name in sorted(set(called))}, changes)
