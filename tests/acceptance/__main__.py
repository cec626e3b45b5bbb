"""``python -m tests.acceptance``: what the pages promise of one call an application, in a fresh Airflow, unattended."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from airflow_provider.errors import StatefulStreamsError
from tests.acceptance.errors import AcceptanceError
from tests.acceptance.report import Report
from tests.acceptance.story import ACTS, Settings, Story


def main() -> int:
    """Run; 1 when a promise was not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance", description=__doc__)
    parser.add_argument("--rate", type=int, default=40, help="records a second for each application (%(default)s)")
    parser.add_argument("--drill-minutes", type=int, default=3, help="between two drills (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the load (%(default)s)")
    parser.add_argument("--acts", default=",".join(ACTS), help="comma-separated, beginning with deploy (%(default)s)")
    parser.add_argument("--python", type=Path, help="of an environment where the wheel is installed already")
    asked = parser.parse_args()
    acts = asked.acts.split(",")
    if acts[0] != ACTS[0] or not set(acts) <= set(ACTS):
        parser.error(f"--acts {asked.acts}: begin with {ACTS[0]}, then name some of {', '.join(ACTS[1:])}")
    # Told to end, it ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="acceptance-"))
    print(f"Everything lies in {folder}: logs of Airflow's parts in logs/, of the instances in run/", flush=True)
    settings = Settings(
        folder=folder,
        rate=asked.rate,
        drill_minutes=asked.drill_minutes,
        seed=asked.seed,
        acts=acts,
        python=None if asked.python is None else asked.python.absolute(),
    )
    # Programs that are started with -m look into the working folder first: not into the checkout.
    os.chdir(folder)
    report = Report(folder / "report.txt")
    try:
        return 0 if Story(settings, report).run() else 1
    except (AcceptanceError, StatefulStreamsError) as error:
        report.saw(f"PROBLEM: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
