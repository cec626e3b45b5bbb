"""``python -m tests.chaos``: random faults on real parts, and a judge. A printed seed repeats the choices of a run."""

from __future__ import annotations

import argparse
import random
import signal
import sys

from tests.chaos.faults import FAULTS
from tests.chaos.run import JOBS, Options, run


def main() -> int:
    """Run; 1 when anything was lost, doubled or late."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="of a run to repeat; drawn when absent")
    parser.add_argument("--job", choices=sorted(JOBS), default="ledger", help="what is put under chaos")
    parser.add_argument("--duration", type=float, default=300.0, help="seconds of faults")
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--rate", type=int, default=1000, help="records a second")
    parser.add_argument("--faults", default="all", help=f"comma-separated, of: {', '.join(FAULTS)}")
    parser.add_argument("--max-faults", type=int, help="end after so many faults, if the time does not end it before")
    parser.add_argument("--deadline", type=float, help="seconds for the whole run; then it is ended and reported")
    parser.add_argument("--heal", type=float, default=150.0, help="seconds within which all has to be whole again")
    parser.add_argument("--keep", action="store_true", help="keep the folder whatever the verdict")
    asked = parser.parse_args()
    faults = list(FAULTS) if asked.faults == "all" else asked.faults.split(",")
    if unknown := [name for name in faults if name not in FAULTS]:
        parser.error(f"no such fault: {', '.join(unknown)}")
    seed = random.SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    print(f"chaos with --seed {seed}", flush=True)
    # Told to end, it ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = Options(
        seed,
        asked.duration,
        asked.instances,
        asked.tasks,
        asked.rate,
        faults,
        heal_s=asked.heal,
        max_faults=asked.max_faults,
        deadline_s=asked.deadline,
        keep=asked.keep,
        job=asked.job,
    )
    outcome = run(options)
    print("\n".join(outcome.lines()))
    if not outcome.right or asked.keep:
        print(f"logs, stores and topics: {outcome.folder}")
    print(f"seed {seed}")
    return 0 if outcome.right else 1


if __name__ == "__main__":
    sys.exit(main())
