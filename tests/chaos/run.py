"""One run: faults under live load, quiet, verdict."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider.common.task_id import TaskId
from tests.chaos.cluster import Cluster
from tests.chaos.faults import FAULTS
from tests.chaos.judge import Verdict
from tests.chaos.ledger import Ledger
from tests.chaos.shop import Shop
from tests.chaos.workload import Workload

_POLL_S = 0.2
_HEALING = 0.1
_GAPS_S = (0.2, 0.5, 1.0, 2.0, 4.0)

JOBS: Final[Mapping[str, Callable[[Options], Workload]]] = {
    "ledger": lambda options: Ledger(options.tasks),
    "shop": lambda options: Shop(),
}
"""What may be put under chaos."""


@dataclass(frozen=True)
class Options:
    """What a run is asked for.

    Args:
        seed: of every choice.
        duration_s: how long faults are injected.
        instances: how many.
        tasks: partitions of the ledger's input.
        rate: records a second.
        faults: names of `FAULTS` to draw from.
        heal_s: how long it may take until everything is whole again.
        max_faults: after how many the injecting ends, if the time does not end it; None for no such bound.
        deadline_s: for the whole run, from the start to the verdict; None for none.
        keep: whether the folder stays whatever the verdict.
        job: a name of `JOBS`.
    """

    seed: int
    duration_s: float = 300.0
    instances: int = 3
    tasks: int = 4
    rate: int = 1000
    faults: Sequence[str] = tuple(FAULTS)
    heal_s: float = 150.0
    max_faults: int | None = None
    deadline_s: float | None = None
    keep: bool = False
    job: str = "ledger"


@dataclass
class Injected:
    """One fault that was injected; ``healed_s`` is None where the next one came first."""

    at_s: float
    name: str
    what: str
    took_s: float
    healed_s: float | None = None

    def __str__(self) -> str:
        healed = "      -" if self.healed_s is None else f"{self.healed_s:7.1f}"
        return f"{self.at_s:7.1f}  {self.name:<20}{self.took_s:7.1f} {healed}  {self.what}"


@dataclass
class Outcome:
    """What a run came to."""

    folder: Path
    faults: list[Injected] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def right(self) -> bool:
        return self.verdict.right and not self.problems

    def lines(self) -> list[str]:
        healed = sorted(f.healed_s for f in self.faults if f.healed_s is not None)
        found = [f"     at  {'fault':<20}   took  healed  what (seconds)", *map(str, self.faults)]
        found.append(
            f"{len(self.faults)} faults: " + ", ".join(f"{number} {name}" for number, name in _kinds(self.faults))
        )
        found.append("supervisor: " + ", ".join(f"{number} {what}" for what, number in sorted(self.counts.items())))
        if healed:
            found.append(f"healed within {healed[len(healed) // 2]:.1f} s (median), {healed[-1]:.1f} s (longest)")
        found += [f"problem: {line}" for line in self.problems]
        return [
            *found,
            *self.verdict.lines(),
            "verdict: " + ("nothing lost, nothing doubled" if self.right else "WRONG"),
        ]


def run(options: Options) -> Outcome:
    """Inject faults for as long as asked, let everything catch up, judge. SIGUSR1 ends the first of these early."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    outcome, workload = Outcome(folder), JOBS[options.job](options)
    with (
        _told_to_end(signal.SIGUSR1) as told,
        _bounded(options.deadline_s, folder),
        _clients_tell(folder / "clients.log"),
        Cluster(folder, options.instances, workload, options.rate, options.seed, options.heal_s) as cluster,
    ):
        try:
            cluster.start(options.heal_s + 30.0)
            _inject(cluster, options, outcome, told)
            settle(cluster, options, outcome)
            judge(cluster, outcome)
        except Exception as error:
            outcome.problems.append(f"{type(error).__name__}: {error}")
            raise
        finally:
            outcome.counts = cluster.supervisor.counts
            outcome.problems += cluster.problems
            (folder / "outcome.txt").write_text("\n".join(outcome.lines()) + "\n")
    if outcome.right and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


@contextlib.contextmanager
def _bounded(deadline_s: float | None, folder: Path) -> Iterator[None]:
    """Interrupts the main thread, wherever it waits, so that no wait of a run needs to know of the deadline."""

    def expired(*_: object) -> None:
        raise TimeoutError(
            f"The run took longer than {deadline_s:g} s. A quiet machine needs a third of it: see what else runs here, "
            f"or look into {folder} for what does not heal."
        )

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, deadline_s or 0.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _told_to_end(number: signal.Signals) -> Iterator[threading.Event]:
    """Set once a signal of this number came."""
    told = threading.Event()
    before = signal.signal(number, lambda *_: told.set())
    try:
        yield told
    finally:
        signal.signal(number, before)


@contextlib.contextmanager
def _clients_tell(file: Path) -> Iterator[None]:
    """What Kafka's clients of this process write to standard error goes to a file: a lost broker fills a screen."""
    sys.stderr.flush()
    kept = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _inject(cluster: Cluster, options: Options, outcome: Outcome, told: threading.Event) -> None:
    began, number = time.monotonic(), 0
    names = [name for name in options.faults if name not in cluster.workload.lacks]
    weights = [FAULTS[name].weight for name in names]
    ends_at = began + options.duration_s
    while time.monotonic() < ends_at and len(outcome.faults) != options.max_faults and not told.is_set():
        # Each fault has chance of its own, so that the next one is the same however long this one took.
        chance = random.Random(f"{options.seed} {number}")
        number += 1
        fault = FAULTS[chance.choices(names, weights)[0]]()
        wait, gap_s = chance.random() < _HEALING, chance.choice(_GAPS_S)
        at = time.monotonic()
        cluster.supervisor.say(f"FAULT {fault.name} begins")
        what = fault.inject(cluster, chance)
        if not what:
            time.sleep(0.5)
            continue
        injected = Injected(at - began, fault.name, what, time.monotonic() - at)
        outcome.faults.append(injected)
        cluster.supervisor.say(f"FAULT {fault.name} ends: {what}")
        print(injected, flush=True)
        over = time.monotonic()
        # The faults of a row may overlap; now and then all of it has to heal before the next one.
        if _wait_until_healed(cluster, options.heal_s if wait else gap_s, cluster.marks()):
            injected.healed_s = time.monotonic() - over
        elif wait:
            outcome.problems.append(f"after {fault.name} {what}: {_lacking(cluster)} for {options.heal_s:g} s")
            return


def _wait_until_healed(cluster: Cluster, deadline_s: float, marks: dict[TaskId, int]) -> bool:
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        health = cluster.health()
        if health.whole and health.beyond(marks):
            return True
        time.sleep(_POLL_S)
    return False


def settle(cluster: Cluster, options: Options, outcome: Outcome) -> None:
    """Quiet: no more load, no more faults; everything has to catch up by itself."""
    cluster.load.stop()
    while catch_up(cluster, options, outcome) and cluster.workload.write_last(cluster.load):
        cluster.supervisor.say("last records are written")
    time.sleep(2.0)
    left = cluster.stop_instances()
    if left:
        outcome.problems.append(f"{', '.join(left)} did not stop when asked")
    cluster.kill_all()


def catch_up(cluster: Cluster, options: Options, outcome: Outcome) -> bool:
    """Whether all is processed that lies in the topics, that between the stages too."""
    deadline = time.monotonic() + options.heal_s
    ends: dict[TaskId, int] = {}
    while time.monotonic() < deadline:
        health = cluster.health()
        # A standby stands at the last commit; what lies behind it is that commit's marker.
        if health.whole and health.beyond(ends) and health.lag_records <= 1:
            # What was processed last may have written for another stage.
            before, ends = ends, cluster.workload.ends(cluster.connection.bootstrap_servers)
            if before and cluster.health().beyond(ends):
                return True
        time.sleep(_POLL_S)
    outcome.problems.append(f"not caught up within {options.heal_s:g} s: {_lacking(cluster)}; needed {ends}")
    return False


def judge(cluster: Cluster, outcome: Outcome) -> None:
    state_dirs = {name: cluster.state_dir(name) for name in cluster.everyone}
    outcome.verdict = cluster.workload.judge(cluster.connection.bootstrap_servers, state_dirs, cluster.lost_assignments)
    # What was damaged on the disk and never read since is found by the next reader, as it was here.
    for sort in ("active unreadable", "standby unreadable"):
        lines = outcome.verdict.differences.get(sort, [])
        found = [line for line in lines if not any(str(path) in line for path in cluster.tampered)]
        if lines:
            outcome.verdict.differences[sort] = found


def _lacking(cluster: Cluster) -> str:
    health = cluster.health()
    return "; ".join(health.lacking) or f"committed {dict(health.offsets)}, lag {health.lag_records}"


def _kinds(faults: Sequence[Injected]) -> list[tuple[int, str]]:
    return [(number, name) for name, number in Counter(fault.name for fault in faults).most_common()]
