"""One schedule: its seed, its faults, what came of it."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from tests.simulation import clients, disk
from tests.simulation import kernel as kernels
from tests.simulation.faults import Fault, Faults, choose
from tests.simulation.faults import until as end_of
from tests.simulation.judge import Violation
from tests.simulation.size import Size, size_of
from tests.simulation.world import World

_PERSON_S: Final = 60.0
"""After so long a person runs a failover by hand."""
_LIVE_S: Final = 180.0
"""Within this all has to be as it should be, once the faults are over."""
_MOST_STEPS: Final = 200_000


@dataclass
class Outcome:
    """What came of a schedule.

    Args:
        violation: which promise was broken, and how; None where all were kept.
        digest: of the trace, where one is kept: two runs with the same one took the same steps.
        virtual_s: how long it was.
        steps: how often the turn was given on.
        seen: what was passed, and how often.
    """

    seed: int
    faults: list[Fault]
    violation: str | None
    name: str | None
    digest: str
    virtual_s: float
    steps: int
    seen: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)


def faults_of(seed: int, only: Sequence[str] = ()) -> list[Fault]:
    """The faults of a seed, of some kinds only where any are named."""
    random, size = Random(f"{seed}/faults"), size_of(seed)
    number, end = random.choice(size.faults), random.choice(size.faults_end)
    return choose(random, number, size.faults_begin, end, only, lasting=size.lasting)


def run(seed: int, faults: Sequence[Fault] | None = None, traced: bool = False, size: Size | None = None) -> Outcome:
    """Run a schedule.

    Args:
        faults: in place of those of the seed.
        traced: whether a trace is kept and handed on.
        size: in place of that of the seed.
    """
    chosen = faults_of(seed) if faults is None else list(faults)
    folder = tempfile.mkdtemp(prefix="simulation-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    before = Path.cwd()
    os.chdir(folder)
    world = World(seed, size or size_of(seed), traced)
    kernel = world.kernel
    violation: Violation | BaseException | None = None
    was_on = gc.isenabled()
    gc.disable()
    try:
        world.use()
        patient = Random(f"{seed}/patience").random() < world.size.patient
        until = max(world.size.least_s, end_of(chosen, world.size.after_s, patient=patient))
        trouble = Faults(world, chosen)
        trouble.begin()
        world.begin(until)
        kernel.run(until)
        trouble.heal()
        why: str | None = "nothing was looked at"
        healed, end = kernel.now, kernel.now + _LIVE_S
        while kernel.failure is None and why is not None and kernel.now < end and kernel.steps < _MOST_STEPS:
            kernel.run(kernel.now + world.size.look_s)
            view = world.view()
            why = world.judge.unfinished(view) or world.unsettled(view)
            if why is not None:
                if world.ends_in_a_reset(view):
                    kernel.passed("a person resets: a transaction was torn and cannot be undone")
                    why = None
                world.operate(view)
                try:
                    world.judge.look(view, kernel.now)
                except Violation as found:
                    kernel.fail(found)
                if kernel.now - healed > _PERSON_S:
                    healed = kernel.now
                    kernel.passed("a person looks after it")
                    world.airflow.repair()
                    world.airflow.fail_over()
        violation = kernel.failure
        if violation is None and why is not None:
            what = "livelock" if kernel.steps >= _MOST_STEPS else "liveness"
            violation = Violation(what, f"{kernel.now - until:.0f} s after the faults: {why}")
    finally:
        kernel.close()
        world.disk.close()
        with contextlib.suppress(OSError):
            os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)
        for use in (kernels.use, clients.use, disk.use):
            use(None)
        if was_on:
            gc.enable()
    text = None if violation is None else f"{type(violation).__name__}: {violation}"
    kernel.trace.append(f"end {text}")
    if violation is not None and not isinstance(violation, Violation):
        text = f"{text}\n{''.join(traceback.format_exception(violation))}"
    digest = hashlib.blake2b("\n".join(kernel.trace).encode(), digest_size=16).hexdigest()
    name = None if violation is None else getattr(violation, "name", type(violation).__name__)
    return Outcome(seed, chosen, text, name, digest, kernel.now, kernel.steps, kernel.seen, kernel.trace)
